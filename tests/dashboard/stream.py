"""A stream as the page sees it: progress reports as Spark has them."""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from muntin.engine.metrics import names
from muntin.spark.metrics import all_metrics


class Query:
    """A stream after some batches."""

    name: str | None = 'fares "<b>"'
    id = "6f1c"

    def __init__(self, batches: int = 30, watermark: bool = True) -> None:
        self.isActive = True
        self.failure: Exception | None = None
        self.recentProgress = [report(number, watermark) for number in range(batches)]

    def exception(self) -> Exception | None:
        return self.failure


def report(number: int, watermark: bool = True) -> Any:
    values = dict.fromkeys(names(all_metrics()), 0)
    rows = 40_000 + round(9_000 * math.sin(number / 3))
    values |= {"rows": rows, "total_rows": 40_000 * (number + 1), "results": 300, "total_results": 300 * (number + 1)}
    values |= {"late_rows": number % 7 * 10, "total_late_rows": number * 30, "hot_bytes": 2_000_000 + 30_000 * number}
    values |= {"state_bytes": 3_000_000 + 50_000 * number, "shed_rate": 20_000 * number, "shed_rows": number * 100}
    values |= {"compressed_bytes": 90_000 * number, "compressed_after": 60_000_000}
    time = f"2024-05-01T12:{number:02}:00.000Z"
    return StreamingQueryProgress.fromJson(
        {
            "id": "6f1c6f1c-6f1c-6f1c-6f1c-6f1c6f1c6f1c",
            "runId": "6f1c6f1c-6f1c-6f1c-6f1c-6f1c6f1c6f1c",
            "name": Query.name,
            "timestamp": time,
            "batchId": number,
            "batchDuration": 800,
            "durationMs": {"triggerExecution": 800, "addBatch": 600 + number, "walCommit": 90, "queryPlanning": 40},
            "eventTime": {"watermark": f"2024-05-01T11:{number:02}:00.000Z"} if watermark else {},
            "stateOperators": [],
            "sources": [
                {
                    "description": "files",
                    "startOffset": "0",
                    "endOffset": "1",
                    "latestOffset": "1",
                    "numInputRows": rows,
                    "inputRowsPerSecond": rows / 60,
                    "processedRowsPerSecond": rows / 0.8,
                    "metrics": {},
                }
            ],
            "sink": {"description": "memory", "numOutputRows": 300, "metrics": {}},
            "numInputRows": rows,
            "inputRowsPerSecond": rows / 60,
            "processedRowsPerSecond": rows / 0.8,
            "observedMetrics": {"muntin": values},
        }
    )
