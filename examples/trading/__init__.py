"""The algo-trader: quotes of stocks as a stream, a polynomial through every window, predictions in a database.

The application of section 5.1 of Mencagli, Torquati, Lucattini, Cuomo and Aldinucci: *Harnessing Sliding-Window
Execution Semantics for Parallel Stream Processing*. A source sends quotes, an operator estimates the future price of
each stock by Levenberg–Marquardt regression over sliding windows, and a sink stores the results in a database. `make
trading` runs it.
"""
