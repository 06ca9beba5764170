"""Statistics that several features share: intervals, order statistics, frequencies, and the division of a budget."""
