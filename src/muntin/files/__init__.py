"""Files as input: which there are, how they are cut into shares, and how a share is read with Arrow. No Spark."""
