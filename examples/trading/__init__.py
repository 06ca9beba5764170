"""The algo-trader: quotes of stocks as a stream, a polynomial through every window, predictions in a database.

The application of section 5.1 of *Harnessing Sliding-Window Execution Semantics for Parallel Stream Processing*: a
source of quotes, an operator that estimates the future price of each stock by Levenberg–Marquardt regression over
sliding windows, and a sink that keeps the results in a database. `make trading` runs it.
"""
