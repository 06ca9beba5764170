"""Idle streams: windows close although no row comes any more."""
