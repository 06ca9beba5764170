"""The groups of a window side by side: the k best of them, and how much they change from window to window."""
