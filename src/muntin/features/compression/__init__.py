"""Tunable compression of window state (A_C): when a chunk is compressed, and with what."""
