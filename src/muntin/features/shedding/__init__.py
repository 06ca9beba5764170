"""Load shedding (CoD, Katsipoulakis 2018): which tuples are dropped, and how answers are scaled back to all tuples."""
