"""Sliding-window parallelism (paper 004, sections 3 and 4): windows, and not only keys, are spread over workers.

`policy` is what a user asks for and `choice` what becomes of it; `dealing` is the active model, `jobs` the agnostic
one, and `collector` puts results back in order.
"""
