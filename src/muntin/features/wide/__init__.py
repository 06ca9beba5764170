"""`.wide()`: the windows of a key that end at the same time in one row, for tables of features."""
