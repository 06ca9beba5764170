"""The controller: streams that outrun a machine, simulated batch by batch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from muntin.features.shedding.controller import Batch, next_rate
from muntin.features.shedding.load import HostLoad
from muntin.spark.host.folder import HostFolder

TARGET = 2.0
COST = 1 / 10_000
"""Seconds per kept row: the machine takes 10,000 rows/s."""
FIXED = 0.3
QUERY, ANOTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2


def simulated(
    arrival: Callable[[float], float], batches: int, delay: int = 0, most: int | None = None, counted: bool = True
) -> list[Batch]:
    """Back-to-back batches of what has arrived; what is kept costs `delay` batches later, as windows close."""
    now, backlog, history, kept = 0.0, 1000.0, list[Batch](), [0.0] * delay
    for _ in range(batches):
        rate = next_rate(TARGET, history[-8:], now)
        rows = backlog if most is None else min(backlog, most)
        backlog -= rows
        kept.append(rows * (1 - rate))
        took = FIXED + COST * kept[-1 - delay]
        event_time = now - backlog / max(arrival(now), 1)
        history.append(Batch(now, now + took - 0.1, event_time, rate, int(rows) if counted else None))
        wait = 0.0 if most is not None or rows > 10 else 1.0
        backlog += arrival(now) * (took + wait)
        now += took + wait
    return history


def durations(history: list[Batch]) -> list[float]:
    return [batch.finished - batch.started + 0.1 for batch in history]


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("overload", [1.5, 3, 10])
def test_batches_stay_within_the_target_under_overload(overload: float, delay: int) -> None:
    """Costs that come three batches late are harder to control, and may take twice the target at times."""
    history = simulated(lambda now: overload * 10_000, 120, delay)
    settled, most = (10, 1.5) if delay < 2 else (40, 2.0)
    assert max(durations(history)[settled:]) <= most * TARGET
    assert sum(batch.rate > 0 for batch in history[10:]) > 60
    kept = sum((batch.rows or 0) * (1 - batch.rate) for batch in history[10:]) / sum(durations(history)[10:])
    assert kept > 6_000, "much less is kept than the machine can take"


def test_without_overload_nothing_is_shed() -> None:
    history = simulated(lambda now: 5_000, 60)
    assert all(batch.rate == 0 for batch in history)


def test_the_rate_returns_to_zero_when_the_burst_is_over() -> None:
    history = simulated(lambda now: 50_000 if 20 < now < 60 else 4_000, 400)
    assert max(batch.rate for batch in history) > 0.5
    late = [batch for batch in history if batch.started > 180]
    assert late
    assert all(batch.rate == 0 for batch in late)


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_burst_is_met_before_it_has_made_a_long_batch(delay: int) -> None:
    """Because rows are seen to come in faster than they are processed; from durations alone it is seen too late."""
    counted, not_counted = (
        max(durations(simulated(lambda now: 50_000 if 20 < now < 60 else 4_000, 400, delay, counted=each)))
        for each in (True, False)
    )
    assert counted < 2 * TARGET
    assert not_counted > 3 * TARGET


def test_rows_that_come_in_as_fast_as_they_are_processed_foretell_nothing() -> None:
    even = [Batch(1.5 * i, 1.5 * i + 1.4, None, 0.5, 10_000) for i in range(5)]
    assert next_rate(TARGET, even, 7.5) == 0.5
    growing = [*even, Batch(7.5, 8.9, None, 0.5, 30_000)]
    assert next_rate(TARGET, growing, 9.0) == 0.5, "each has as many as came in"
    slow = [*even, Batch(7.5, 10.6, None, 0.5, 10_000)]
    assert next_rate(TARGET, slow, 10.7) == pytest.approx(1 - 0.5 * 0.75 * TARGET / (3.2 * 3.2 / 1.5))


def test_the_rate_rests_while_the_latency_is_about_right() -> None:
    last = Batch(0.0, 1.4, None, 0.5)
    assert next_rate(TARGET, [last], 1.5) == 0.5
    assert next_rate(TARGET, [Batch(0.0, 1.9, None, 0.5)], 2.0) > 0.5
    assert next_rate(TARGET, [Batch(0.0, 0.4, None, 0.5)], 0.5) < 0.5


def test_a_growing_backlog_behind_short_batches_is_overload() -> None:
    """A source that hands out 8,000 rows at a time, of a stream of 30,000 a second."""
    history = simulated(lambda now: 30_000, 40, most=8_000)
    assert max(durations(history)) < 0.9 * TARGET
    assert history[-1].rate > 0.5


def test_pauses_do_not_count() -> None:
    """A batch that had to wait for rows, or for its trigger, took no longer for that."""
    batches = [Batch(60.0 * i, 60.0 * i + 1, 60.0 * i, 0.0) for i in range(6)]
    assert next_rate(TARGET, batches, 360.0) == 0


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def test_tasks_of_a_host_agree_and_learn_from_the_batches_before(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("muntin.features.shedding.load.time.time", lambda: clock[0])
    assert HostLoad(QUERY, 0, HostFolder()).rate(TARGET) == 0
    clock[0] += 20
    HostLoad(QUERY, 0, HostFolder()).done(3_000_000, 500)
    HostLoad(QUERY, 0, HostFolder()).done()
    first = HostLoad(QUERY, 1, HostFolder()).rate(TARGET)
    clock[0] += 5
    assert first > 0.5
    assert HostLoad(QUERY, 1, HostFolder()).rate(TARGET) == first, "decided once"
    assert HostLoad(ANOTHER, 1, HostFolder()).rate(TARGET) == 0


def test_the_start_of_workers_is_no_overload(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("muntin.features.shedding.load.time.time", lambda: clock[0])
    rates = []
    for batch, took in enumerate([9.0, 1.0, 1.0, 9.0, 1.0]):
        rates.append(HostLoad(QUERY, batch, HostFolder()).rate(TARGET))
        clock[0] += took
        HostLoad(QUERY, batch, HostFolder()).done(None, 500)
    assert rates[:4] == [0, 0, 0, 0]
    assert rates[4] > 0.5, "a long batch later on is one"


def test_damaged_notes_and_a_strange_folder_shed_nothing(host: Path) -> None:
    HostLoad(QUERY, 0, HostFolder()).rate(TARGET)
    (tmp,) = host.glob(f"muntin-*/{QUERY}/load")
    (tmp / "start-0").write_text("nonsense")
    assert HostLoad(QUERY, 1, HostFolder()).rate(TARGET) == 0
    (host / tmp.parent.parent.name).chmod(0o777)
    assert HostLoad(QUERY, 2, HostFolder()).rate(TARGET) == 0


class Cluster:
    """Hosts that take tuples in, of which only the first has a shard that does anything with them."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch, hosts: int) -> None:
        self.clock = 1000.0
        self.now = 0
        self.rates: list[list[float]] = []
        self.took: list[float] = []
        self.folders = [str(place / f"host-{number}") for number in range(hosts)]
        self._patch = monkeypatch
        monkeypatch.setattr("muntin.features.shedding.load.time.time", lambda: self.clock)
        for folder in self.folders:
            Path(folder).mkdir()

    def _load(self, folder: str) -> HostLoad:
        self._patch.setattr(tempfile, "gettempdir", lambda: folder)
        return HostLoad(QUERY, self.now, HostFolder())

    def batch(self, rows: float, pause: float = 0.0) -> None:
        """`rows` come in, each host gets as many."""
        hosts = [self._load(folder) for folder in self.folders]
        rates = [host.rate(TARGET) for host in hosts]
        told = [host.report() for host in hosts]
        self.clock += 0.1
        for host in hosts:
            host.done(None, int(rows / len(hosts)))
            host.hear(told)
        took = FIXED + COST * rows * (1 - sum(rates) / len(rates))
        for host in hosts[1:]:
            host.done()
        self.clock += took - 0.1
        hosts[0].done()
        self.clock += 0.05 + pause
        self.now += 1
        self.rates.append(rates)
        self.took.append(took)


@pytest.mark.parametrize("hosts", [2, 5])
@pytest.mark.parametrize("overload", [1.5, 3, 10])
def test_hosts_without_a_slow_shard_shed_for_the_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: int, overload: float
) -> None:
    cluster = Cluster(tmp_path, monkeypatch, hosts)
    rows = 1000.0
    for _ in range(80):
        cluster.batch(rows)
        rows = overload * 10_000 * cluster.took[-1]
    settled = 10 if overload < 10 else 25  # until then, so much has come in while nobody knew
    assert max(cluster.took[settled:]) <= 1.5 * TARGET
    assert all(min(rates) > 0 for rates in cluster.rates[settled:])
    assert max(max(rates) - min(rates) for rates in cluster.rates) < 0.01, "all know the same"
    assert sum(cluster.took[40:]) / 40 > 0.6 * TARGET, "much less is kept than could be"


def test_hosts_shed_nothing_without_overload_and_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, monkeypatch, 3)
    for rows, batches in ((8_000, 20), (100_000, 10), (4_000, 120)):
        for _ in range(batches):
            cluster.batch(rows, pause=1.0)
    assert all(rates == [0, 0, 0] for rates in cluster.rates[:20])
    assert all(min(rates) > 0.5 for rates in cluster.rates[24:30])
    assert cluster.rates[-1] == [0, 0, 0]


def test_a_host_that_nobody_hears_of_any_more_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(tmp_path, monkeypatch, 2)
    for _ in range(10):
        cluster.batch(60_000)
    assert min(cluster.rates[-1]) > 0.3
    cluster.folders.pop()  # its host is gone, and the load with it
    for _ in range(60):
        cluster.batch(3_000)
    assert cluster.rates[-1] == [0]
