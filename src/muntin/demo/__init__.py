"""`muntin demo`: a year of real flights as a stream, three sliding windows at once, and plain Spark beside it."""

from muntin.demo.run import run

__all__ = ["run"]
