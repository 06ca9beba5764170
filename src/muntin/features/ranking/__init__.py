"""Ranking: the k best groups of each window."""
