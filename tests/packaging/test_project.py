"""The files that surround the code agree with it: public names, conda recipe, workflows, `python -m muntin`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

import muntin

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)


def test_the_public_interface_is_the_recorded_one() -> None:
    done = run("scripts/public_names.py", "--check")
    assert done.returncode == 0, done.stderr


def test_the_documentation_is_built_without_a_warning() -> None:
    """Links that lead nowhere are errors, and so is what pages load from other hosts."""
    done = run("scripts/build_docs.py")
    assert done.returncode == 0, done.stdout + done.stderr
    start = (ROOT / "build" / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="windows.html"' in start
    reference = (ROOT / "build" / "site" / "api.html").read_text(encoding="utf-8")
    assert all(f'id="muntin.{name}' in reference for name in ("query.start.over", "windows.session.session"))


def test_windows_of_the_page_are_those_of_its_code() -> None:
    done = run("scripts/window_pages.py", "--check")
    assert done.returncode == 0, done.stderr


def test_the_module_is_the_command() -> None:
    done = run("-m", "muntin", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"muntin {muntin.__version__}\n", "")


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for() -> None:
    recipe: dict[str, Any] = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == muntin.__version__
    assert recipe["about"]["summary"] == PROJECT["description"]
    assert recipe["about"]["license"] == PROJECT["license"]
    (command,) = PROJECT["scripts"].items()
    assert recipe["build"]["python"]["entry_points"] == [" = ".join(command)]
    wheel = {"python": PROJECT["requires-python"]} | {
        found.name: str(found.specifier) for found in map(Requirement, PROJECT["dependencies"])
    }
    conda = dict(line.split(" ", 1) for line in recipe["requirements"]["run"])
    assert conda.pop("openjdk") == ">=17"
    assert {name: set(limits.split(",")) for name, limits in conda.items()} == {
        name: set(limits.split(",")) for name, limits in wheel.items()
    }


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_what_the_makefile_has(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    for job in jobs.values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        tried = job.get("strategy", {}).get("matrix", {}).get("command", [])
        wanted = {name for command in commands for name in re.findall(r"^make ([a-z-]+)$", command)} | set(tried)
        assert wanted
        assert wanted <= targets


def test_the_supported_pythons_are_the_same_everywhere() -> None:
    classified = {found for line in PROJECT["classifiers"] for found in re.findall(r"Python :: (3\.\d+)", line)}
    matrix = (ROOT / "scripts" / "matrix.py").read_text(encoding="utf-8")
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert set(ci["jobs"]["test"]["strategy"]["matrix"]["python"]) == classified
    assert set(re.findall(r'"(3\.\d+)"', matrix.split("SPARKS")[0])) == classified


def test_pages_for_contributors_name_what_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for command in re.findall(r"`make ([a-z-]+)`", page):
        assert f"\n{command}: " in (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|examples|scripts|conda|docs)/[\w./-]+)`", page)
    assert len(named) > 8
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("form", ["bug", "idea", "config"])
def test_issue_forms_can_be_read(form: str) -> None:
    read = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{form}.yml").read_text(encoding="utf-8"))
    for field in read.get("body", []):
        assert field["type"] == "textarea"
        assert {"id", "attributes"} <= set(field)
        assert field["attributes"]["label"]
