"""Windowed equality joins: the pairs of two inputs' tuples of a key within a window, and aggregates over them.

A join is a query over the union of its sides, so both sides of a key meet in the panes and chunks of one shard.
"""
