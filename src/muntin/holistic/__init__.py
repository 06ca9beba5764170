"""Whole-window functions: answers that need the tuples themselves, not partial results of them."""
