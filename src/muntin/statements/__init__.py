"""Windows in SQL: table functions of Flink, and `window()` of Spark, as queries."""
