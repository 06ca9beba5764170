"""What a feature is to the engine: a knob of a query, with everything that it adds, in one place.

A feature is a frozen value that travels to the workers with the plan. It may add hidden aggregates to the plan, choose
rows on the map side, prepare what arrives at a shard, answer windows in its own way, keep its own state, and report its
own metrics. Every step has a default that changes nothing. `docs/extending.md` builds one from scratch.

The engine calls the features of a query in the order of `Feature.order`, the outermost first. Answers are a chain, of
which the outermost feature is the last link: Shedding(Sampling(Exact)). So steps that build on each other (`link`,
`emit`, and the steps of a shard's batch) run in the opposite order, from the inside out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import pyarrow as pa

from muntin.arrays import BoolArray, Int64Array
from muntin.engine.host import NO_HOST, Host
from muntin.engine.metrics import Metric
from muntin.expressions import Given
from muntin.panes.table import PaneTable
from muntin.panes.watermarks import Watermarks
from muntin.partials.strata import Strata

if TYPE_CHECKING:
    from muntin.engine.answers import AnswerLink
    from muntin.engine.batch import ShardBatch
    from muntin.engine.chunks.store import ChunkPolicy
    from muntin.engine.contents import ShardTuples
    from muntin.engine.emitted import Emitted
    from muntin.engine.map_stage import Panes
    from muntin.engine.plan import Draft, Plan

JOINS, WORKERS, RANKING, DRIFT, SHEDDING, SAMPLING, COMPRESSION = 5, 10, 20, 30, 40, 50, 60
"""The stated order. A feature of your own goes where it has to: behind 60 it is the innermost."""

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Task:
    """The task of the engine that runs a stage."""

    query: str = "query"
    number: int = 0
    """Tells the tasks of a batch apart."""
    batch: int | None = None
    """The number of the batch, in a stream."""
    host: Host = NO_HOST


@dataclass(frozen=True)
class Spread:
    """A step behind the shards: their jobs are spread over so many tasks, each of which computes what it gets."""

    tasks: int


@dataclass(frozen=True)
class Collect:
    """A step behind the shards: the results of all shards meet in one task."""

    run: Batches
    schema: pa.Schema


class RowFeature:
    """A feature's part in one task of the map stage."""

    rows_together: int = 0
    """How many tuples it wants to see at once; 0 for any number."""

    def keep(self, times: Int64Array, panes: Panes) -> KeptRows | None:
        """Which tuples are kept; None for all."""
        return None

    def split(self, table: PaneTable) -> Mapping[int, PaneTable] | None:
        """What each shard gets, by its index; None to split by key."""
        return None

    def notes(self, first: bool) -> Any:
        """What a shard should know, as JSON; `first` for the first of the shards that are sent to."""
        return None

    def done(self, latest: int | None, rows: int) -> None:
        """The task is through: the latest event time that it saw, and how many rows."""


@dataclass(frozen=True)
class KeptRows:
    """The tuples that are kept of a batch."""

    positions: Int64Array
    strata: Strata
    """What they stand for."""


class ShardFeature:
    """A feature's part in one batch of one shard, in the order in which the engine calls it."""

    chunk_policy: ChunkPolicy | None = None
    """How chunks are kept, if this feature decides that."""

    def receive(self, notes: Any) -> None:
        """Take what a map task noted for this feature."""

    def arrived(self, table: PaneTable) -> PaneTable:
        """What one task has sent, before anything else sees it."""
        return table

    def late(self, late: BoolArray, times: Int64Array, closed: Watermarks, of_tuples: bool) -> BoolArray:
        """Which of the late panes or tuples this shard counts."""
        return late

    def begin(self, batch: ShardBatch) -> None:
        """Everything has arrived, and nothing is ingested yet."""

    def ingested(self, batch: ShardBatch) -> None:
        """The batch has been ingested, and no window is answered yet."""

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        """Its link in the chain of answers, around the inner one; without a batch where a job is computed."""
        return inner

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        """What leaves the shard; without a batch where a job is computed."""
        return emitted

    def answered(self, batch: ShardBatch) -> None:
        """All windows that close with the batch are answered."""

    def prune(self, batch: ShardBatch) -> None:
        """`batch.left` has what open windows still need."""

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        """Its part of the header, as JSON: what the next batch finds in `batch.header.parts`."""
        return {}

    def committed(self, batch: ShardBatch) -> None:
        """The state is written."""


class Feature:
    """A knob of a query. Subclasses are frozen dataclasses."""

    name: ClassVar[str]
    order: ClassVar[int]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    estimates: ClassVar[bool] = False
    """Whether answers may be estimates: then results have the column `quality`."""

    def on_map(self, plan: Plan, task: Task) -> RowFeature | None:
        """Its part in a task of the map stage; None if it has none."""
        return None

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature | None:
        """Its part in a batch of a shard; None if it has none."""
        return None

    def on_job(self, plan: Plan) -> ShardFeature | None:
        """Its part where windows are answered away from their shard: only `link` and `emit` are called."""
        return None

    def job_results(self, plan: Plan, payload: Any) -> Iterator[pa.RecordBatch] | None:
        """The results of a job that this feature handed out; None if it hands out none."""
        return None

    def job_done(self, plan: Plan, task: Task) -> None:
        """A task that computed jobs is through."""

    def of_shard(self, plan: Plan, index: int) -> Plan:
        """The plan that a shard follows."""
        return plan

    def is_exact(self, name: str) -> bool:
        """Whether an aggregate is exact whatever this feature does."""
        return True

    def steps(self, plan: Plan) -> Iterable[Spread | Collect]:
        """What happens to results behind the shards."""
        return ()

    def identity(self) -> tuple[object, ...]:
        """What the meaning of its state depends on: part of the fingerprint of the query."""
        return ()

    def described(self) -> Mapping[str, Any]:
        """The same for people: by it, changes of a query are reported."""
        return {}


class Option:
    """What a user asks for, checked. `Query.use()` takes it, and it adds its features to the plan."""

    name: ClassVar[str]
    order: ClassVar[int]

    @property
    def written(self) -> str:
        """As the user wrote it, such as ".top(3, by='n')"."""
        return f".use({self!r})"

    @property
    def reads(self) -> tuple[Given, ...]:
        """The columns of the data that it reads, as the user gave them."""
        return ()

    def reading(self, names: Sequence[str]) -> Option:
        """The same option over columns with these names, given in the order of `reads`."""
        return self

    def check(self, draft: Draft, complete: bool = False) -> None:
        """Raise a MuntinError if it does not go with the query; more may be added to that until it is `complete`."""

    def resolved(self, plan: Plan, cores: Callable[[], int]) -> Option:
        """The same with what only a session knows; `plan` is the plan without that."""
        return self

    def partitions(self, streaming: bool, of_session: int) -> tuple[int, int] | None:
        """How many partitions packed panes go to, and for how many shards they are; None for those of the session."""
        return None

    def plan(self, draft: Draft) -> Draft:
        """The draft with its features."""
        return draft

    def explained(self, plan: Plan) -> list[str]:
        """How the query does it, in words."""
        return []


class Knob(Option, Feature):
    """An option that is its own feature."""

    def plan(self, draft: Draft) -> Draft:
        return draft.with_feature(self)
