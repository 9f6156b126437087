"""One module for each kind of adversary, named as ``[[adversaries]]`` names it, with its record ``ADVERSARY``."""
