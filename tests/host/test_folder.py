"""The folder of the host: nobody else's files are read, written or removed, whatever is in the place of ours."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from muntin import MuntinError
from muntin.features.shedding.load import HostLoad
from muntin.spark.host import folder, private
from muntin.spark.host.folder import VARIABLE, HostFolder, QueryFolder
from tests.host.conftest import contents

QUERY = "0123456789abcdef" * 2
SEGMENT = f"7-{'0' * 32}"
SHARD = "3"
AS_ROOT = os.geteuid() == 0


def shard() -> QueryFolder:
    return QueryFolder(HostFolder(), QUERY, SHARD)


def use_all() -> None:
    """Everything that is ever done there."""
    for part in (SHARD, "load", "streams"):
        for name in (SEGMENT, "holder", "start-1", "done-1", "heard-0"):
            used = QueryFolder(HostFolder(), QUERY, part)
            used.read(name, 100)
            used.write(name, b"[2]\n")
            used.create(name, b"[3]\n")
            used.append(name, b"[4]\n")
            used.delete(name)
            used.names()
    load = HostLoad(QUERY, 1)
    load.hear([b'["other", [[0, 5.0]]]'])
    load.done(3_000_000, 10)
    load.rate(2.0)
    load.report()
    HostFolder().forget("a" * 32)
    HostFolder().forget(QUERY)


def works() -> bool:
    shard().write(SEGMENT, b"bytes")
    return shard().read(SEGMENT, 5) == b"bytes"


def test_what_is_written_is_read_and_deleted(host: Path, base: Path) -> None:
    assert works()
    assert QueryFolder(HostFolder(), QUERY, "4").read(SEGMENT, 5) is None
    assert shard().read(SEGMENT, 4) is None, "larger than it can be"
    shard().create(SEGMENT, b"other")
    assert shard().read(SEGMENT, 5) == b"bytes", "there is one"
    shard().delete(SEGMENT)
    assert shard().read(SEGMENT, 5) is None
    shard().create(SEGMENT, b"other")
    shard().append(SEGMENT, b"!")
    assert shard().read(SEGMENT, 6) == b"other!"
    assert shard().names() == [SEGMENT], "nothing unfinished is left"
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in [base, *base.rglob("*")]}
    assert modes == {base.name: 0o700, QUERY: 0o700, SHARD: 0o700, SEGMENT: 0o600}
    HostFolder().forget(QUERY)
    assert list(base.iterdir()) == []


def test_no_umask_and_no_group_of_the_parent_is_in_the_way(host: Path, base: Path) -> None:
    host.chmod(0o2700)
    before = os.umask(0o277)
    try:
        assert works()
    finally:
        os.umask(before)
    assert {stat.S_IMODE(each.stat().st_mode) & 0o777 for each in (base, base / QUERY, base / QUERY / SHARD)} == {0o700}


def test_a_link_in_the_place_of_the_folder_is_not_followed(base: Path, victim: Path) -> None:
    base.symlink_to(victim)
    before = contents(victim)
    use_all()
    assert contents(victim) == before
    assert base.is_symlink()
    assert not works()


@pytest.mark.parametrize("part", [None, SHARD, "load", "streams"])
def test_a_link_on_the_way_is_not_followed(base: Path, victim: Path, part: str | None) -> None:
    place = base / QUERY if part is None else base / QUERY / part
    place.parent.mkdir(parents=True)
    place.symlink_to(victim / ("a" * 32) / ("" if part is None else "load"))
    base.chmod(0o700)
    before = contents(victim)
    use_all()
    assert contents(victim) == before
    assert place.is_symlink()


@pytest.mark.parametrize("name", [SEGMENT, "holder", "start-1", "done-1", "heard-0"])
@pytest.mark.parametrize("part", [SHARD, "load"])
def test_a_link_in_the_place_of_a_file_is_not_followed(base: Path, victim: Path, part: str, name: str) -> None:
    (base / QUERY / part).mkdir(parents=True, mode=0o700)
    (base / QUERY / part / name).symlink_to(victim / "project" / "load" / "thesis")
    before = contents(victim)
    assert QueryFolder(HostFolder(), QUERY, part).read(name, 100) is None
    use_all()
    assert contents(victim) == before


def test_the_sweep_follows_no_link(base: Path, victim: Path) -> None:
    base.mkdir(mode=0o700)
    (base / ("a" * 32)).symlink_to(victim / ("a" * 32))
    (base / ("b" * 32)).mkdir()
    (base / ("b" * 32) / "0").symlink_to(victim / ("b" * 32) / "0")
    for each in ("a" * 32, "b" * 32):
        os.utime(base / each, (1_000_000, 1_000_000), follow_symlinks=False)
    before = contents(victim)
    assert works()
    assert contents(victim) == before
    assert (base / ("a" * 32)).is_symlink()
    assert (base / ("b" * 32) / "0").is_symlink()


def test_a_file_that_is_elsewhere_too_gets_no_line(base: Path, victim: Path) -> None:
    (base / QUERY / "load").mkdir(parents=True, mode=0o700)
    (base / QUERY / "load" / "done-1").hardlink_to(victim / "project" / "load" / "thesis")
    before = contents(victim)
    use_all()
    assert contents(victim) == before


@pytest.mark.parametrize("name", [SEGMENT, "holder", "start-1", "done-1", "heard-0"])
def test_a_pipe_or_a_folder_in_the_place_of_a_file_is_not_waited_for(base: Path, name: str) -> None:
    place = base / QUERY / "load"
    place.mkdir(parents=True, mode=0o700)
    base.chmod(0o700)
    used = QueryFolder(HostFolder(), QUERY, "load")

    def try_all() -> None:
        os.mkfifo(place / name)
        assert used.read(name, 100) is None
        used.append(name, b"line")
        HostLoad(QUERY, 1).rate(2.0)
        HostLoad(QUERY, 1).done()
        (place / name).unlink()
        (place / name).mkdir()
        assert used.read(name, 100) is None
        use_all()
        done.append(True)

    done: list[bool] = []
    worker = threading.Thread(target=try_all, daemon=True)
    worker.start()
    worker.join(10)
    assert done, "it waits, or failed"
    assert (place / name).is_dir()
    assert not [each for each in place.iterdir() if private.FILE.fullmatch(each.name) and each.is_file()]


def test_a_folder_that_others_could_write_to_is_closed_and_emptied(base: Path) -> None:
    assert works()
    (base / "notes of mine").write_text("")
    for mode in (0o777, 0o770, 0o702):
        shard().write(SEGMENT, b"bytes")
        base.chmod(mode)
        assert shard().read(SEGMENT, 5) is None, "it may be of anybody"
        assert stat.S_IMODE(base.stat().st_mode) == 0o700
        assert works()
    assert (base / "notes of mine").exists()


def test_a_folder_that_others_could_only_read_is_closed(base: Path) -> None:
    assert works()
    base.chmod(0o755)
    assert shard().read(SEGMENT, 5) == b"bytes"
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


def test_a_folder_on_the_way_that_others_can_write_to_is_not_used(base: Path) -> None:
    for place in (base / QUERY / SHARD, base / QUERY):
        assert works()
        place.chmod(0o770)
        assert shard().read(SEGMENT, 5) is None
        place.chmod(0o700)


def test_the_folder_of_somebody_else_is_not_used(host: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = os.geteuid() + 1
    theirs = host / f"muntin-{stranger}"
    theirs.mkdir(mode=0o700)
    (theirs / ("a" * 32) / "0").mkdir(parents=True)
    os.utime(theirs / ("a" * 32), (1_000_000, 1_000_000))
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    before = contents(theirs)
    use_all()
    assert not works()
    assert contents(theirs) == before


@pytest.mark.skipif(not AS_ROOT, reason="only root can give files away")
def test_files_and_folders_of_somebody_else_are_not_used(base: Path) -> None:
    for place in (base / QUERY / SHARD / SEGMENT, base / QUERY / SHARD, base / QUERY, base):
        assert works()
        os.chown(place, 12_345, -1)
        assert shard().read(SEGMENT, 5) is None
        shard().append(SEGMENT, b"!")
        os.chown(place, os.geteuid(), -1)
        assert shard().read(SEGMENT, 5) == b"bytes"


def test_only_names_of_our_own_making_are_touched(base: Path) -> None:
    assert works()
    for name in ("../escaped", "thesis", f"{SEGMENT}.pid", "start-x", "", ".", "start-1\n"):
        shard().write(name, b"bytes")
        shard().append(name, b"bytes")
        assert shard().read(name, 100) is None
    for query, part in (("..", SHARD), ("query", SHARD), (QUERY, "../x"), (QUERY, "-1"), (QUERY, "\u0663")):
        QueryFolder(HostFolder(), query, part).write(SEGMENT, b"bytes")
    (base / QUERY / SHARD / "thesis").write_text("mine")
    (base / QUERY / "photos").mkdir()
    (base / "project").mkdir()
    HostFolder().forget("project")
    HostFolder().forget(QUERY)
    kept = {"project", QUERY, f"{QUERY}/{SHARD}", f"{QUERY}/{SHARD}/thesis", f"{QUERY}/photos"}
    assert {str(each.relative_to(base)) for each in base.rglob("*")} == kept


def test_no_usable_temporary_directory_is_no_error(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    assert HostFolder().path is None
    use_all()
    assert not works()
    assert HostLoad(QUERY, 1).rate(2.0) == 0


def test_a_platform_that_cannot_is_no_error(host: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private, "SUPPORTED", False)
    monkeypatch.delattr(os, "geteuid")
    use_all()
    assert not works()
    assert not base.exists()


@pytest.mark.parametrize("call", ["mkdir", "open", "rename", "link", "listdir", "fstat", "utime"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_disk_that_fails_is_no_error(base: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        use_all()
    assert works(), "it is only for a while"


def test_a_full_disk_leaves_nothing_unfinished(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert works()
    real = os.fdopen

    def full(file: int, mode: str, **options: object) -> object:
        content = real(file, mode, **options)  # type: ignore[call-overload]
        if "w" in mode:
            content.close()
            raise OSError(errno.ENOSPC, "No space left on device")
        return content

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdopen", full)
        shard().write(SEGMENT, b"other")
    assert shard().read(SEGMENT, 5) == b"bytes"
    assert shard().names() == [SEGMENT]


def test_a_folder_that_vanishes_is_made_again(base: Path) -> None:
    for gone in (base / QUERY / SHARD, base / QUERY, base):
        assert works()
        shutil.rmtree(gone)
        assert shard().read(SEGMENT, 5) is None
        assert shard().names() == []
    base.write_text("a file where the folder should be")
    assert not works()


def test_no_descriptor_is_left_open(base: Path, victim: Path) -> None:
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    if not Path("/proc/self/fd").exists():
        pytest.skip("there is no list of open files")
    before = count()
    assert works()
    (base / QUERY / SHARD / "holder").mkdir()
    (base / QUERY / SHARD / "done-1").symlink_to(victim / "project")
    os.mkfifo(base / QUERY / SHARD / "done-2")
    for name in (SEGMENT, "holder", "done-1", "done-2", "done-3"):
        shard().read(name, 1)
        shard().append(name, b"")
        shard().write(name, b"")
        shard().create(name, b"")
    use_all()
    assert count() == before


def test_the_place_can_be_chosen_or_turned_off(
    host: Path, base: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, of_host = tmp_path_factory.mktemp("chosen"), tmp_path_factory.mktemp("host")

    def used(place: str | None) -> list[Path]:
        there = QueryFolder(HostFolder.checked(place), QUERY, SHARD)
        there.write(SEGMENT, b"bytes")
        found = [each for each in (host, chosen, of_host) if (each / base.name / QUERY / SHARD / SEGMENT).exists()]
        HostFolder.checked(place).forget(QUERY)
        return found

    assert used(None) == [host]
    assert used(str(chosen)) == [chosen]
    assert used(str(chosen / "missing")) == []
    for off in ("off", "none", " OFF ", "None"):
        assert used(off) == []
    monkeypatch.setenv(VARIABLE, str(of_host))
    assert used(None) == used(str(chosen)) == used("off") == [of_host]
    for nothing in ("off", "none", "relative/path"):
        monkeypatch.setenv(VARIABLE, nothing)
        assert used(None) == used(str(chosen)) == []
    monkeypatch.setenv(VARIABLE, "")
    assert used(str(chosen)) == [chosen]


@pytest.mark.parametrize("place", ["", "relative", "~/muntin", "file:///tmp", "/a\0b"])
def test_a_place_that_is_none_is_an_error(place: str) -> None:
    with pytest.raises(MuntinError, match=rf"{folder.SETTING} is .*absolute path.*'off'"):
        HostFolder.checked(place)
