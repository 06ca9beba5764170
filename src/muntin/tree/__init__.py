"""The batched pane aggregation tree of SPRINGALD (Mencagli 2024), for all keys at once."""

from muntin.tree.flat import FlatTree

__all__ = ["FlatTree"]
