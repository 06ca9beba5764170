"""The batched pane aggregation tree of SPRINGALD, for all keys at once."""

from muntin.tree.flat import FlatTree

__all__ = ["FlatTree"]
