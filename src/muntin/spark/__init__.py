"""The adapter to Spark, and the only place that imports pyspark. It makes public DataFrame calls only."""
