"""Sliding-window parallelism (Mencagli 2018): windows, not only keys, are spread over workers.

`policy` has the user's request and `choice` decides the model. `dealing` is the active model, `jobs` the agnostic one,
and `collector` puts results back in order.
"""
