"""The Spark session of the other tests."""

from tests.spark.conftest import spark as spark
