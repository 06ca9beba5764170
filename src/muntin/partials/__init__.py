"""What a pane keeps of a column: partial results that are lifted from rows, combined, and lowered to answers."""
