"""Tunable compression of window state (A_C, Gulisano 2024)."""
