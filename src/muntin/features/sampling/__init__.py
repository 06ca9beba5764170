"""SPEAr's idea: mergeable samples of panes, what can be said from them, and how sure one can be of it."""
