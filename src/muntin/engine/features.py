"""The protocol of features: everything that a knob of a query adds to the engine, in one place.

A feature is a frozen value that is sent to the workers with the plan. It may add hidden aggregates to the plan, choose
rows on the map side, prepare what arrives at a shard, answer windows in its own way, keep its own state, and report its
own metrics. Every step has a default that changes nothing. `docs/extending.md` builds one from scratch.

The engine calls the features of a query in the order of `Feature.order`, the outermost first. Answers are a chain, and
the outermost feature is its last link: Outer(Inner(Exact)). So steps that build on each other (`link`, `emit`,
and the steps of a shard's batch) run in the opposite order, from the inside out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

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
    from muntin.engine.batch import Arrived, Selected, ShardBatch
    from muntin.engine.chunks.store import ChunkPolicy
    from muntin.engine.contents import ShardTuples
    from muntin.engine.emitted import Emitted
    from muntin.engine.plan import Draft, Plan
    from muntin.engine.store import Header
    from muntin.panes.pairs import Panes

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Task:
    """The task of the engine that runs a stage."""

    query: str = "query"
    number: int = 0
    """Distinguishes the tasks of a batch."""
    batch: int | None = None
    """The number of the batch, in a stream."""
    host: Host = NO_HOST
    stream: str | None = None
    """The id of the stream, which is in its checkpoint: it stays the same when the stream is started again."""
    clock: int | None = None
    """The processing time of the batch in a stream, in milliseconds: the same in every shard and in a replay."""


@dataclass(frozen=True)
class Spread:
    """A step after the shards: their jobs are spread over this many tasks, each of which computes its jobs."""

    tasks: int


@dataclass(frozen=True)
class Collect:
    """A step after the shards: one task gets the results of all shards."""

    run: Batches
    schema: pa.Schema


class Finish(Protocol):
    """Turns the results of a shard into others, in their order."""

    @property
    def schema(self) -> pa.Schema: ...

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True)
class KeptAtSource:
    """Every row is kept with the same probability, independently of the others, before any stage reads it."""

    probability: float
    seed: int


class RowFeature:
    """A feature's part in one task of the map stage."""

    rows_together: int = 0
    """The minimal number of tuples per call; 0 for any number."""

    def keep(self, batch: pa.RecordBatch, times: Int64Array, panes: Panes) -> KeptRows | None:
        """Which tuples are kept; None for all."""
        return None

    def split(self, table: PaneTable) -> Mapping[int, PaneTable] | None:
        """What each shard gets, by its index; None to split by key."""
        return None

    def notes(self, first: bool) -> Any:
        """A note for a shard, as JSON. `first` is true for the first of the shards."""
        return None

    def done(self, latest: int | None, rows: int) -> None:
        """The task is done: its latest event time, and its number of rows."""


@dataclass(frozen=True)
class KeptRows:
    """The tuples of a batch that are kept."""

    positions: Int64Array
    strata: Strata
    """The strata that they represent."""
    for_panes: bool = False
    """Whether panes, too, aggregate only these; else all tuples, and only what needs tuples gets only these."""


class ShardFeature:
    """A feature's part in one batch of one shard, in the order in which the engine calls it."""

    chunk_policy: ChunkPolicy | None = None
    """How chunks are kept, if this feature decides that."""

    def receive(self, notes: Any) -> None:
        """Receive the note of a map task for this feature."""

    def arrived(self, table: PaneTable) -> PaneTable:
        """The table that one task sent, before any other step."""
        return table

    def late(self, late: BoolArray, times: Int64Array, closed: Watermarks, of_tuples: bool) -> BoolArray:
        """The late panes or tuples that this shard counts."""
        return late

    def watermark(self, watermark: int, arrived: Arrived, header: Header) -> int:
        """The watermark of the batch, if this feature moves it on: it is that of the stream, in microseconds.

        Then its part of the header has the stream's own one under the name `STREAM_WATERMARK` of `engine/store.py`.
        """
        return watermark

    def begin(self, batch: ShardBatch) -> None:
        """Everything has arrived, and nothing is ingested yet."""

    def ingested(self, batch: ShardBatch) -> None:
        """The batch has been ingested, and no window is answered yet."""

    def select(self, batch: ShardBatch) -> Iterator[Selected] | None:
        """The windows to answer, if this feature decides that; None for those that close."""
        return None

    def link(self, inner: AnswerLink, tuples: ShardTuples, batch: ShardBatch | None) -> AnswerLink:
        """Its link in the chain of answers, around the inner one; without a batch where a job is computed."""
        return inner

    def emit(self, emitted: Iterator[Emitted], batch: ShardBatch | None) -> Iterator[Emitted]:
        """What the shard emits; without a batch where a job is computed."""
        return emitted

    def answered(self, batch: ShardBatch) -> None:
        """All windows that close with the batch are answered."""

    def prune(self, batch: ShardBatch) -> None:
        """`batch.left` has been pruned to what open windows need."""

    def commit(self, batch: ShardBatch) -> Mapping[str, Any]:
        """Its part of the header, as JSON. The next batch has it in `batch.header.parts`."""
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
    estimates_size: ClassVar[bool] = False
    """Whether the numbers of tuples in windows may be estimates, too."""

    @property
    def added_columns(self) -> tuple[pa.Field, ...]:
        """Columns that it adds to results. They are null until its `emit` fills them."""
        return ()

    def on_map(self, plan: Plan, task: Task) -> RowFeature | None:
        """Its part in a task of the map stage; None if it has none."""
        return None

    def on_shard(self, plan: Plan, shard: int, task: Task) -> ShardFeature | None:
        """Its part in a batch of a shard; None if it has none."""
        return None

    def on_job(self, plan: Plan) -> ShardFeature | None:
        """Its part where windows are answered outside of their shard: only `link` and `emit` are called."""
        return None

    def job_results(self, plan: Plan, payload: Any) -> Iterator[pa.RecordBatch] | None:
        """The results of a job that this feature handed out; None if it hands out none."""
        return None

    def job_done(self, plan: Plan, task: Task) -> None:
        """A task that computed jobs is done."""

    def of_shard(self, plan: Plan, index: int) -> Plan:
        """The plan that a shard follows."""
        return plan

    def is_exact(self, name: str) -> bool:
        """Whether an aggregate stays exact with this feature."""
        return True

    def steps(self, plan: Plan) -> Iterable[Spread | Collect]:
        """Steps that results go through after the shards."""
        return ()

    def identity(self) -> tuple[object, ...]:
        """The values on which the meaning of its state depends: part of the fingerprint of the query."""
        return ()

    def described(self) -> Mapping[str, Any]:
        """The same for people, as JSON: by it, changes of a query are reported.

        `written` is the option as the user wrote it. `compared` names the parts that the meaning of the state depends
        on, and `call` says of what they are parts.
        """
        return {}


class Option:
    """A checked option of the user, for `Query.use()`. It adds its features to the plan."""

    name: ClassVar[str]
    order: ClassVar[int]

    @property
    def written(self) -> str:
        """The call as the user wrote it, such as ".top(3, by='n')"."""
        return f".use({self!r})"

    @property
    def not_by_zone(self) -> str | None:
        """Why it does not go with windows in the time zone of each key; None if it does."""
        return None

    @property
    def reads(self) -> tuple[Given, ...]:
        """The columns of the data that it reads, as the user gave them."""
        return ()

    def reading(self, names: Sequence[str]) -> Option:
        """The same option over columns with these names, given in the order of `reads`."""
        return self

    def check(self, draft: Draft, complete: bool = False) -> None:
        """Raise a MuntinError if it does not fit the query. Until the query is `complete`, more may be added to it."""

    def resolved(self, plan: Plan, cores: Callable[[], int]) -> Option:
        """The option with values that depend on the session. `plan` is the plan without them."""
        return self

    @property
    def at_source(self) -> KeptAtSource | None:
        """Which rows are kept before any stage reads them; None for all."""
        return None

    def partitions(self, streaming: bool, of_session: int) -> tuple[int, int] | None:
        """The numbers of partitions and of shards for packed panes; None for those of the session."""
        return None

    def plan(self, draft: Draft) -> Draft:
        """The draft with its features."""
        return draft

    def finish(self, plan: Plan) -> Finish | None:
        """What turns the results of a shard into rows of another form; None to leave them as they are."""
        return None

    def explained(self, plan: Plan) -> list[str]:
        """Lines for `explain()`."""
        return []


class Knob(Option, Feature):
    """An option that is its own feature."""

    def plan(self, draft: Draft) -> Draft:
        return draft.with_feature(self)
