"""CoD as a feature: tuples are shed before they cost anything, and answers are scaled back to all tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from muntin.arrays import Int64Array
from muntin.engine.answers import AnswerLink
from muntin.engine.batch import ShardBatch
from muntin.engine.contents import ShardTuples
from muntin.engine.estimates import ESTIMATE_METRICS
from muntin.engine.features import Feature, KeptRows, RowFeature, ShardFeature, Task
from muntin.engine.metrics import Metric
from muntin.engine.plan import Plan
from muntin.features.order import SHEDDING
from muntin.features.shedding.load import HostLoad
from muntin.features.shedding.manual import ManualRate
from muntin.features.shedding.notes import Command
from muntin.features.shedding.plan import needs_tuples
from muntin.features.shedding.policy import Shedding
from muntin.features.shedding.required import Required
from muntin.features.shedding.shedder import Shedder
from muntin.features.shedding.thinned import WindowShares
from muntin.features.shedding.windows import ShedAnswers, ShedFunction, ShedLink
from muntin.panes.pairs import Panes

ROWS_TOGETHER = 1 << 20
"""Tuples whose groups are counted, and shed, together."""
MILLION = 1_000_000


@dataclass(frozen=True)
class LoadShedding(Feature):
    """Tuples are shed."""

    policy: Shedding
    exact: frozenset[str] = frozenset()
    """The aggregates that see all tuples."""
    required: Required | None = None
    """What an error requires of every group, if one is given."""
    name = "shed"
    order = SHEDDING
    estimates = True
    metrics = (
        *ESTIMATE_METRICS,
        Metric("shed_rows", "Rows that were shed; they are among `rows`.", counter=True),
        Metric("shed_rate", "The share of rows that the last batch was to shed, in millionths.", fold="max"),
        Metric(
            "error_millionths",
            "The estimated errors of the windows of the last batch of which rows were shed, added up, where they are "
            "known.",
        ),
        Metric(
            "window_rows", "The rows of all windows that were answered; of a join, those of keys that both sides have."
        ),
        Metric("window_kept_rows", "Those of them that were kept."),
        Metric("windows_with_error", "The number of windows whose errors were added up."),
    )

    def on_map(self, plan: Plan, task: Task) -> RowFeature:
        command = ManualRate(task.stream, task.host).command()
        rate, required = self._rate(task, command), self.required
        if command is not None and command.rate is not None:
            required = None
        if self.policy.incremental and not needs_tuples(plan):
            rate, required = 0.0, None
        return SheddingRows(Shedder(self.policy, task.number, rate, required), self.load(task), command)

    def _rate(self, task: Task, command: Command | None) -> float | None:
        """The rate of a batch, which may be set by hand; None if the policy alone decides."""
        target, given = self.policy.target_latency, self.policy.rate
        if command is not None and command.rate is not None:
            given = command.rate
        if task.batch is None or (target is None and given is None):
            return None
        load = HostLoad(task.query, task.batch, task.host)
        return load.rate(None if target is None else target / MILLION, given)

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature:
        return SheddingShard(plan, self.policy, self.load(task), ManualRate(task.stream, task.host))

    def on_job(self, plan: Plan) -> ShardFeature:
        return SheddingShard(plan, self.policy, None, ManualRate(None))

    def job_done(self, plan: Plan, task: Task) -> None:
        load = self.load(task)
        if load is not None:
            load.done()

    def load(self, task: Task) -> HostLoad | None:
        """The notes of this host on the current batch, if the query has a target latency."""
        if self.policy.target_latency is None or task.batch is None:
            return None
        return HostLoad(task.query, task.batch, task.host)

    def is_exact(self, name: str) -> bool:
        return name in self.exact

    def identity(self) -> tuple[object, ...]:
        return ("of all rows",) if self.exact else ()

    def described(self) -> Mapping[str, Any]:
        return {
            "call": "shed()",
            "compared": ["method", "aggregates"],
            "method": self.policy.method,
            "aggregates": "of all rows" if self.exact else "of kept rows",
            "written": self.policy.written,
        }


class SheddingRows(RowFeature):
    """Shedding in one task of the map stage."""

    def __init__(self, shedder: Shedder, load: HostLoad | None = None, command: Command | None = None) -> None:
        self._shedder = shedder
        self._load = load
        self._command = command
        self._reported = None if load is None else load.report().decode()
        self.rows_together = ROWS_TOGETHER if shedder.sheds else 0

    def keep(self, batch: pa.RecordBatch, times: Int64Array, panes: Panes) -> KeptRows | None:
        return self._shedder.keep(batch, times, panes) if self._shedder.sheds else None

    def notes(self, first: bool) -> Mapping[str, Any]:
        rows = self._shedder.take_shed_rows() if first else 0
        notes: dict[str, Any] = {"rows": rows, "rate": round(self._shedder.shed_share * MILLION)}
        if self._command is not None:
            notes["manual"] = self._command.report()
        return notes if self._reported is None else {**notes, "load": self._reported}

    def done(self, latest: int | None, rows: int) -> None:
        if self._load is not None:
            self._load.done(latest, rows)


class SheddingShard(ShardFeature):
    """Shedding in one batch of one shard."""

    def __init__(self, plan: Plan, policy: Shedding, load: HostLoad | None, manual: ManualRate) -> None:
        self._plan = plan
        self._policy = policy
        self._load = load
        self._manual = manual
        self._commands: list[Any] = []
        self._heard: list[bytes] = []
        self._rows = 0
        self._rate = 0
        self._link: ShedLink | None = None

    def receive(self, notes: Any) -> None:
        self._rows += int(notes["rows"])
        self._rate = max(self._rate, int(notes["rate"]))
        if "load" in notes:
            self._heard.append(str(notes["load"]).encode())
        if "manual" in notes:
            self._commands.append(notes["manual"])

    def begin(self, batch: ShardBatch) -> None:
        batch.metrics["shed_rows"], batch.metrics["shed_rate"] = self._rows, self._rate

    def ingested(self, batch: ShardBatch) -> None:
        """Cut windows to their share for functions that ignore weights."""
        function, rate = self._plan.function, self._rate_of_windows
        if function is not None and not function.knows_weights and not self._policy.is_uniform and rate:
            assert batch.tuples is not None
            batch.tuples.cut = WindowShares(self._policy.seed, rate)

    @property
    def _rate_of_windows(self) -> float:
        """The rate by which the windows that close are cut."""
        command = Command.of(self._commands[0]) if self._commands else self._manual.command()
        if command is not None and command.rate is not None:
            return command.rate
        return self._rate / MILLION if self._policy.rate is None else self._policy.rate

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        kind = ShedAnswers if self._plan.function is None else ShedFunction
        self._link = kind(self._plan, self._policy, inner, tuples)
        return self._link

    def answered(self, batch: ShardBatch) -> None:
        if self._link is None:
            return
        counted, metrics = self._link.counted, batch.metrics
        metrics["exact_windows"], metrics["approximate_windows"] = counted.exact, counted.approximate
        metrics["window_rows"], metrics["window_kept_rows"] = counted.rows, counted.kept_rows
        metrics["error_millionths"], metrics["windows_with_error"] = round(counted.error * MILLION), counted.with_error

    def committed(self, batch: ShardBatch) -> None:
        self._manual.hear(self._commands)
        if self._load is not None:
            self._load.hear(self._heard)
            self._load.done()
