"""The pane, the unit that everything is built of: its arithmetic, keys, table and packed form."""
