"""The pane, the atom of everything: its arithmetic, its keys, its table, its packed form and its store."""
