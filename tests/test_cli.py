from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

import muntin
from muntin import cli

ROOT = Path(__file__).parents[1]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation whose benchmarks are the files that a test writes."""
    folder = tmp_path / "bench"
    folder.mkdir()
    monkeypatch.setattr(cli, "__file__", str(tmp_path / "cli.py"))
    return folder


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"muntin {muntin.__version__}\n"


def test_without_a_command_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_benchmarks_are_listed_with_their_first_line(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bench / "slide.py").write_text('"""Cost against slide.\n\nMore."""\n\ndef run(out, quick): ...\n')
    (bench / "_timing.py").write_text('"""A helper."""\n\ndef run(out, quick): ...\n')
    (bench / "report.py").write_text('"""Not a benchmark: it has no run()."""\n')
    assert cli.benchmarks() == {"slide": "Cost against slide."}
    assert cli.main(["bench"]) == 0
    assert "slide  Cost against slide." in capsys.readouterr().out


def test_an_unknown_benchmark_gets_a_hint(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bench / "slide.py").write_text('"""Cost against slide."""\n\ndef run(out, quick): ...\n')
    assert cli.main(["bench", "slid"]) == 1
    assert capsys.readouterr().err == "muntin: there is no benchmark 'slid'. Did you mean 'slide'?\n"


def test_scan_is_another_benchmark(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("other", "slide", "slide_scan"):
        (bench / f"{name}.py").write_text('"""Cost."""\n\ndef run(out, quick): ...\n')
    assert cli.main(["bench", "other", "--scan"]) == 1
    assert capsys.readouterr().err == "muntin: --scan is for slide, and 'other' reads no files; leave it out.\n"


def test_an_installation_without_benchmarks(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench"]) == 0
    assert "no benchmarks" in capsys.readouterr().out
    assert cli.main(["bench", "slide"]) == 1


def test_a_missing_package_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == "rich" else util.find_spec(name))
    assert cli.main(["demo"]) == 1
    assert capsys.readouterr().err == "muntin: this command needs rich: pip install 'muntin[cli]'\n"


@pytest.mark.parametrize("home", ["/nowhere", None])
def test_missing_java_is_one_sentence(
    home: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    assert cli.main(["demo"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("muntin: Spark needs Java 17 or later")
    assert message.count("\n") == 1


def test_the_extra_has_what_the_commands_need() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    (extra,) = (line for line in lines if line.startswith("cli = "))
    assert all(f'"{module}>=' in extra for module in cli.DRAWING)
