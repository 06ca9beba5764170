"""Load shedding: which tuples to drop when there are too many, and what the rest says of all of them (CoD)."""
