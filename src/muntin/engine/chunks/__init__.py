"""Chunks: the tuples of a pane, kept as they are for whole windows, and compressed as they age."""
