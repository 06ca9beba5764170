"""Statistics that several features share: intervals, order statistics, frequencies, and how a budget is divided."""
