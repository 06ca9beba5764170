"""The version of Muntin."""

__version__ = "0.1.0"
