"""The rate that is set by hand, as hosts and batches know it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import windows as W
from muntin.engine.features import Task
from muntin.features.shedding.feature import LoadShedding
from muntin.features.shedding.load import HostLoad
from muntin.features.shedding.manual import ManualRate
from muntin.features.shedding.notes import Command, command_of
from muntin.features.shedding.policy import Shedding
from muntin.spark.host.folder import HostFolder
from tests.builders import make_plan
from tests.shedding.test_notes import STRANGE

STREAM = "0123abcd-4567-89ef-0123-456789abcdef"
QUERY = "f" * 32


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of a host without files."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def rate_of(policy: Shedding, batch: int, stream: str | None = STREAM, query: str = QUERY) -> float:
    """The rate of the first task of a batch, as its shards learn of it."""
    rows = LoadShedding(policy).on_map(PLAN, Task(query, 0, batch, HostFolder(), stream))
    rate: int = rows.notes(True)["rate"]
    return rate / 1e6


PLAN = make_plan([W.tumbling("1 minute")], names=["median_x"], streaming=True)
FIXED = Shedding(0.5, None)
TARGET = Shedding(None, 2_000_000)


@pytest.mark.parametrize("policy", [FIXED, TARGET], ids=["rate", "target"])
def test_a_command_holds_from_the_next_batch_on_until_another(host: Path, policy: Shedding) -> None:
    own = policy.rate or 0.0
    assert rate_of(policy, 0) == own
    here = ManualRate(STREAM, HostFolder())
    assert here.give(Command(0.9, 1.0))
    assert rate_of(policy, 0) == own, "a batch has one rate, also if tasks are repeated"
    assert rate_of(policy, 1) == 0.9
    assert rate_of(policy, 0, query="e" * 32) == 0.9, "the query has been started again"
    assert rate_of(policy, 1, stream="f" * 32) == 0.9, "decided for the batch"
    assert rate_of(policy, 2, stream="f" * 32) == own, "another stream"
    assert rate_of(policy, 3, stream=None) == own
    here.give(Command(0.0, 2.0))
    assert rate_of(policy, 4) == 0
    here.give(Command(None, 3.0))
    assert rate_of(policy, 5) == own
    assert rate_of(policy, 6) == own


def test_control_goes_on_from_the_rate_that_was_set(host: Path) -> None:
    load = HostLoad(QUERY, 0, HostFolder())
    assert load.rate(10.0, 0.9) == 0.9
    load.done(1, 10)
    assert 0.8 < HostLoad(QUERY, 1, HostFolder()).rate(10.0) < 0.9


def test_the_latest_command_of_other_hosts_counts(host: Path) -> None:
    here = ManualRate(STREAM, HostFolder())
    here.hear([])
    assert here.command() is None
    here.hear([[0.5, 10.0], [0.7, 12.0], [0.6, 11.0], None, [2.0, 99.0], ["x", 1]])
    assert here.command() == Command(0.7, 12.0)
    here.hear([[0.1, 11.0]])
    assert here.command() == Command(0.7, 12.0), "an old one"
    here.hear([[None, 13.0]])
    assert here.command() == Command(None, 13.0)


def test_shards_pass_commands_on(host: Path) -> None:
    """A task that knows a command reports it; the shard leaves it on its own host."""
    ManualRate(STREAM, HostFolder()).give(Command(0.25, 5.0))
    feature = LoadShedding(FIXED)
    sent = feature.on_map(PLAN, Task(QUERY, 0, 3, HostFolder(), STREAM)).notes(False)
    assert sent["manual"] == [0.25, 5.0]
    elsewhere = "a" * 32
    shard = feature.on_shard(PLAN, 0, Task(QUERY, 0, 3, HostFolder(), elsewhere))
    shard.receive(sent)
    shard.committed(None)  # type: ignore[arg-type]
    assert ManualRate(elsewhere, HostFolder()).command() == Command(0.25, 5.0)


def test_without_local_files_the_policy_decides() -> None:
    here = ManualRate(STREAM)
    assert not here.give(Command(0.9, 1.0))
    assert here.command() is None
    assert HostLoad(QUERY, 0).rate(None, 0.5) == 0.5
    assert not ManualRate(None, HostFolder()).give(Command(0.9, 1.0))


@pytest.mark.parametrize("content", [*STRANGE, b"[1, 1]", b"[-0.1, 1]", b"[true, 1]", b"[0.5]", b"[0.5, null]"])
def test_a_strange_note_is_no_command(host: Path, content: bytes) -> None:
    ManualRate(STREAM, HostFolder()).give(Command(0.9, 1.0))
    (note,) = host.glob("muntin-*/*/load/manual")
    note.write_bytes(content)
    assert ManualRate(STREAM, HostFolder()).command() is None
    assert rate_of(FIXED, 0) == 0.5


@given(st.none() | st.floats(0, 1, exclude_max=True), st.floats(0, 1e12))
def test_commands_are_read_as_they_were_written(rate: float | None, at: float) -> None:
    command = Command(rate, at)
    assert command_of(command.note()) == command == Command.of(command.report())
