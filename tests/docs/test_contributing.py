"""The steps of CONTRIBUTING's first policy rule, applied to a copy of the sources and run in every command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parent.parent.parent
SCENARIO = "examples/scenarios/ceiling.yaml"
MOST_FILES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a step does to one file: the lines `before` become those `after`."""

    file: str
    before: str
    after: str


def changes() -> list[Change]:
    """The diffs of the page, in order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.split("## Your first policy rule")[1].split("\n## ")[0]
    found = []
    for block in re.findall(r"^( *)```diff\n(.*?)^\1```", section, re.MULTILINE | re.DOTALL):
        head, *lines = dedent(block[1]).splitlines()
        before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
        after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
        found.append(Change(file=head.removeprefix("--- "), before=before, after=after))
    return found


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources after all steps."""
    folder = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__")
    for part in ("src", "tests", "examples"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for change in changes():
        path = folder / change.file
        if not change.before:
            path.write_text(change.after, encoding="utf-8")
            continue
        text = path.read_text(encoding="utf-8")
        assert text.count(change.before) == 1, f"{change.file} has no single place that reads\n{change.before}"
        path.write_text(text.replace(change.before, change.after), encoding="utf-8")
    return folder


def run(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in the copy, with its sources."""
    surroundings = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "MUSTER_KERNELS": "plain"}
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=surroundings, capture_output=True, text=True, check=False, timeout=600
    )


def muster(copy: Path, *words: str) -> str:
    """What a command of the copy prints."""
    done = run(copy, "-m", "muster", *words)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_few_files_are_touched():
    assert 5 < len({change.file for change in changes()}) <= MOST_FILES


@pytest.mark.parametrize("how", [[], ["--no-reasons"], ["--every-turn"], ["--check"], ["--estimates", "all"]], ids=str)
def test_the_ceiling_holds_in_every_simulation(copy: Path, how: list[str]):
    lines = [json.loads(line) for line in muster(copy, "simulate", SCENARIO, "-o", "jsonl", *how).splitlines()]

    starts = [line["t"] for line in lines if line["event"] == "started"]
    waits = {line["reason"] for line in lines if line["event"] == "waiting"}
    assert starts == [0, 0, 600, 600, 1200]
    assert waits == (set() if how == ["--no-reasons"] else {"CEILING"})


@pytest.mark.parametrize("how", [[], ["--no-reasons"]], ids=str)
def test_the_ceiling_holds_in_summaries(copy: Path, how: list[str]):
    totals = json.loads(muster(copy, "simulate", SCENARIO, "-o", "summary", *how))["totals"]

    assert (totals["started"], totals["end"]) == (5, 1800)


def test_the_ceiling_is_told_and_kept_in_records(copy: Path):
    assert "its ceiling is 2" in muster(copy, "simulate", SCENARIO, "--why", "job-2@5m")
    muster(copy, "simulate", SCENARIO, "--record", "turns.muster", "-o", "summary")
    assert "identical" in muster(copy, "replay", "turns.muster")


def test_what_if_the_ceiling_were_higher(copy: Path):
    change = "{setQueue: {name: q, ceiling: 3}}"
    told = json.loads(
        muster(copy, "whatif", SCENARIO, "--at", "1m", "--event", change, "--real-runtimes", "-o", "json")
    )["jobs"]["job-2"]

    assert (told["without"]["starts"], told["with"]["starts"]) == ([600], [60])


def test_the_rows_of_the_page_pass(copy: Path):
    done = run(copy, "-m", "pytest", "-p", "no:cacheprovider", "tests/engine/test_limits.py", "-k", "ceiling")

    assert (done.returncode, done.stdout.startswith("..  ")) == (0, True), done.stdout + done.stderr
