"""Local files of queries on the hosts where they run: private to the user, and never required."""
