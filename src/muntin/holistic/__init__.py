"""Holistic aggregates and window functions: they need the tuples of a window, not partial results of them."""
