"""Chunks: the tuples behind holistic aggregates and window functions, compressed as they age."""
