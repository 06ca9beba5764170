"""Sliding-window parallelism (Mencagli, De Matteis: *Parallel Patterns for Window-Based Stateful Operators*): windows,
and not only keys, are spread over workers.

`policy` is what a user asks for and `choice` what becomes of it; `dealing` is the active model, `jobs` the agnostic
one, and `collector` puts results back in order.
"""
