"""SPRINGALD's two stages, without an engine: tuples to packed panes, packed panes to windows."""
