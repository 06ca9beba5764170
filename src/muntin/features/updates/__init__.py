"""Updates: windows that are still open, and corrections of closed ones (`.emit("on_change")`, `.late("update")`).

`selection` finds the windows that may have changed, `ledger` knows what was last emitted of them, `digests` compares.
"""
