"""Where the latest revision of each window and key is written to. No module here imports Spark."""
