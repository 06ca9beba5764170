"""The adapter to Spark, the only package that imports pyspark. It uses public DataFrame calls only."""
