"""The statement that Spark's sessions with Delta or Iceberg run."""

from __future__ import annotations

from muntin.sinks.merge import merge_statement, table_name
from muntin.sinks.revisions import Revisions


def test_updates_with_retracted_windows() -> None:
    rows = Revisions(("window_id", "a`b", "revision"), ("window_id", "a`b"), retracts=True)
    assert merge_statement(table_name(["db", "t`; --"]), "batch", rows) == (
        "MERGE INTO `db`.`t``; --` AS target USING batch AS source "
        "ON target.`window_id` <=> source.`window_id` AND target.`a``b` <=> source.`a``b`\n"
        "WHEN MATCHED AND source.`retracted` AND source.`revision` > target.`revision` THEN DELETE\n"
        "WHEN MATCHED AND source.`revision` > target.`revision` THEN UPDATE SET target.`revision` = source.`revision`\n"
        "WHEN NOT MATCHED AND NOT source.`retracted` THEN INSERT (`window_id`, `a``b`, `revision`) "
        "VALUES (source.`window_id`, source.`a``b`, source.`revision`)"
    )


def test_plain_results() -> None:
    assert merge_statement("t", "batch", Revisions(("window_id", "n"), ("window_id",))) == (
        "MERGE INTO t AS target USING batch AS source ON target.`window_id` <=> source.`window_id`\n"
        "WHEN MATCHED THEN UPDATE SET target.`n` = source.`n`\n"
        "WHEN NOT MATCHED THEN INSERT (`window_id`, `n`) VALUES (source.`window_id`, source.`n`)"
    )
