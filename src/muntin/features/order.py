"""The stated order of the features: the engine calls them by it, the outermost first.

A feature of your own takes a number between those that it belongs between: below 5 it is outside of all of these, and
above 60 it is the innermost.
"""

from __future__ import annotations

JOIN, UPDATES, WORKERS, ORDERED, RANKING, DRIFT, SHEDDING, SAMPLING, COMPRESSION = 5, 8, 10, 11, 20, 30, 40, 50, 60
WIDE = 3
IDLE = 2

INNERMOST = 70
"""What concerns the engine alone plans last, when it knows all of the query."""
