"""What a query does not use is not imported: features by queries without them, and Spark by the core.

Each test looks at the modules of fresh processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CORE = """
import pyarrow as pa
from muntin import aggregates as A, windows as W
from muntin.engine.map_stage import PaneStage
from muntin.engine.plan import Plan
from muntin.engine.shard import Shard
from muntin.engine.state import MemoryState
from muntin.engine.store import HotCache, PaneStore

time = pa.timestamp("us", tz="UTC")
types = {"t": time, "k": pa.string(), "x": pa.float64()}
named = {"n": A.count(), "sum": A.sum("x"), "median": A.median("x")}
plan = Plan.make(
    time="t",
    windows=[W.sliding("10 seconds", "5 seconds"), W.session("3 seconds"), W.count(2), W.slide_by_time(2, "5 seconds")],
    types=types,
    keys=["k"],
    aggregates={name: each.bind(types, None, time) for name, each in named.items()},
    shards=[0],
    streaming=True,
)
rows = pa.record_batch([pa.array([1, 2, 3], time), pa.array(["a", None, "a"]), pa.array([0.5, None, 1.0])], list(types))
state, cache, found = MemoryState(), HotCache(capacity=8), 0
for batches, watermark in (([rows], 0), ([rows], 100_000_000)):
    sent = list(PaneStage(plan).run(batches))
    shard = Shard(plan, PaneStore(plan, "query", 0, state, cache))
    found += sum(map(len, shard.run(sent, watermark)))
assert found > 4, found
"""

ON_SPARK = """
import json
import os
import sys
import time
from pathlib import Path
import pyarrow as pa
import muntin
from muntin import aggregates as A, windows as W

spark = muntin.session("imports")
spark.sparkContext.setLogLevel("OFF")
source = "SELECT timestamp_seconds(id) AS ts, id % 3 AS k, id AS n FROM range({}, {})"
table = spark.sql(source.format(0, 100))
for first in (0, 50):
    spark.sql(source.format(first, first + 50)).coalesce(1).write.mode("append").parquet("in")

def modules():
    return [name for name in sys.modules if name.startswith("muntin")]

def report(folder):
    # The window stage of a stream has workers of its own, which only its own functions see.
    def lower(state):
        Path(folder, f"{os.getpid()}-{time.time_ns()}").write_text(json.dumps(modules()))
        return state
    return A.custom(lambda n: n, lambda left, right: left + right, lower, returns="long", commutative=True)

def query(data, kind):
    folder = Path(kind).absolute()
    folder.mkdir()
    query = muntin.over(data, W.tumbling("10 seconds"), time="ts", watermark="1 second", by="k")
    return query.agg(n=A.count(), median=A.median("n"), seen=report(str(folder))).to_df()

def after(batches):
    list(batches)
    yield pa.record_batch([[modules()]], ["names"])

assert query(table, "table").count() == 30
files = spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet("in")
options = {"path": "out", "checkpointLocation": "checkpoint"}
stream = query(files, "stream").writeStream.format("parquet").options(**options).trigger(availableNow=True).start()
stream.awaitTermination()
assert spark.read.parquet("out").count() == 27
rows = spark.range(0, 8, 1, 8).mapInArrow(after, "names array<string>").collect()
workers = {name for row in rows for name in row.names}
assert "muntin.spark.pane_stage" in workers
for kind, stage in (("table", "muntin.engine.shard"), ("stream", "muntin.engine.chunks.store")):
    seen = {name for each in Path(kind).iterdir() for name in json.loads(each.read_text())}
    assert stage in seen, seen
    workers |= seen
batches = {each.name for each in Path("stream").iterdir()}
assert len(batches) > 1, batches
of_workers = workers
spark.stop()
"""


def imported(code: str, folder: Path, packages: tuple[str, ...] = ("muntin",)) -> list[str]:
    """The modules of these packages that a fresh process has once it has run some code."""
    script = folder / "script.py"
    script.write_text(
        f"{code}\nimport json, sys\nnames = [*sys.modules, *globals().get('of_workers', ())]\n"
        f"print('\\n' + json.dumps(sorted({{each for each in names if each.split('.')[0] in {packages!r}}})))\n",
        encoding="utf-8",
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def of_features(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("muntin.features")]


def test_a_plain_query_imports_no_feature(tmp_path: Path) -> None:
    names = imported(CORE, tmp_path)
    assert "muntin.engine.shard" in names
    assert not of_features(names)


@pytest.mark.spark
@pytest.mark.slow
def test_nor_does_one_on_spark(tmp_path: Path) -> None:
    """Neither in the driver nor in the workers, for a table and for a stream."""
    names = imported(ON_SPARK, tmp_path)
    assert {"muntin.query.query", "muntin.spark.build"} <= {*names}
    assert not of_features(names)


@pytest.mark.parametrize("package", ["aggregates", "windows", "engine", "features"])
def test_the_core_imports_no_spark(package: str, tmp_path: Path) -> None:
    """All modules of the package, one after the other."""
    every = (
        "import importlib, pkgutil\n"
        f"package = importlib.import_module('muntin.{package}')\n"
        "for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "    importlib.import_module(each.name)\n"
    )
    names = imported(every, tmp_path, ("muntin", "pyspark", "py4j"))
    assert len([name for name in names if name.startswith(f"muntin.{package}.")]) > 4
    assert not [name for name in names if not name.startswith("muntin")]


def test_a_query_run_by_the_core_imports_no_spark(tmp_path: Path) -> None:
    assert not imported(CORE, tmp_path, ("pyspark", "py4j"))
