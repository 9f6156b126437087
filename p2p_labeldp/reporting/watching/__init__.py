"""Live pages of runs: served on loopback by the program itself, to whoever was given the address.

The run is one thread, the page's server another. The run leaves what is to be shown in one place and never waits for
anyone to look at it; pages take what is there ten times a second at most, so that a slow one misses some of it. Only
where the person has asked for it, with pause, step or pace, does a simulation wait, at the ``gate``.
"""
