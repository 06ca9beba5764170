"""`.device()`: panes and trees on a GPU."""
