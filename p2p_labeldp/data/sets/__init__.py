"""One module for each data set, named as ``data.name`` names it, with its record ``DATA_SET``."""
