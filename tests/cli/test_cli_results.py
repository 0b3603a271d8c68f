"""`muster simulate --report` and `--parquet`: what is written, what is refused, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]
WITHOUT_PYARROW = [
    sys.executable,
    "-c",
    "import sys, importlib.util as it; find = it.find_spec\n"
    "it.find_spec = lambda name, *rest: None if name == 'pyarrow' else find(name, *rest)\n"
    "from muster.cli.main import main; main()",
]
SMALL = """
clusters: [{name: c, nodes: [{name: n, cpu: 2}]}]
queues: [{name: q}]
jobs:
  - {name: a, queue: q, cpu: 2, runtime: 10s, expectedRuntime: 10s, user: ann}
  - {name: b, queue: q, cpu: 2, runtime: 5s, expectedRuntime: 5s}
  - {name: giant, queue: q, cpu: 3}
"""
LONG = """
clusters: [{name: c, nodes: [{name: n, cpu: 4}]}]
queues: [{name: q}]
jobs: [{name: a, count: 200000, queue: q, cpu: 1, runtime: 1s}]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return path


def muster(*args: object, command: list[str] = MUSTER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "simulate", *map(str, args)], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_report_is_written_and_what_is_printed_stays_the_same(tmp_path: Path, scenario: Path):
    report = tmp_path / "out.html"

    plain, reported = muster(scenario, "-o", "jsonl"), muster(scenario, "-o", "jsonl", "--report", report)

    assert (reported.returncode, reported.stdout, reported.stderr) == (0, plain.stdout, "")
    text = report.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>small.yaml – Muster simulation report</title>" in text
    assert "2 of 3 jobs succeeded (1 queued)" in text
    assert stat.S_IMODE(report.stat().st_mode) == 0o666 & ~_umask()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "small.yaml"]


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


def test_tables_are_written_for_jobs_queues_and_the_fleet(tmp_path: Path, scenario: Path):
    folder = tmp_path / "new" / "tables"

    done = muster(scenario, "-o", "summary", "--parquet", folder)

    assert (done.returncode, done.stderr) == (0, "")
    jobs = pq.read_table(folder / "jobs.parquet")
    assert jobs.schema.metadata[b"width"] == b"cpu"
    assert jobs.select(["id", "queue", "user", "submit", "start", "end", "wait", "slowdown"]).to_pylist() == [
        {"id": "a", "queue": "q", "user": "ann", "submit": 0, "start": 0, "end": 10, "wait": 0, "slowdown": 1},
        {"id": "b", "queue": "q", "user": "", "submit": 0, "start": 10, "end": 15, "wait": 10, "slowdown": 1.5},
        {"id": "giant", "queue": "q", "user": "", "submit": 0} | dict.fromkeys(["start", "end", "wait", "slowdown"]),
    ]
    assert jobs.select(["width", "tasks", "cluster", "attempts", "phase", "waited_for"]).to_pylist() == [
        {"width": 2, "tasks": 1, "cluster": "c", "attempts": 1, "phase": "succeeded", "waited_for": ""},
        {"width": 2, "tasks": 1, "cluster": "c", "attempts": 1, "phase": "succeeded", "waited_for": "RESERVED"},
        {"width": 3, "tasks": 1, "cluster": None, "attempts": 0, "phase": "queued", "waited_for": "NEVER_FITS"},
    ]
    queues, fleet = pq.read_table(folder / "queues.parquet"), pq.read_table(folder / "fleet.parquet")
    assert {row["held"] for row in queues.to_pylist()} == {1.0}
    assert fleet.column_names == ["time", "waiting", "running", "idle_asked", "used cpu", "good cpu"]
    first = {"time": 0, "waiting": 2, "running": 1, "idle_asked": 0, "used cpu": 1, "good cpu": 1}
    assert fleet.to_pylist()[0] == first
    assert queues.num_rows == fleet.num_rows <= 2000


NO_ENTRY = "cannot be written: No such file or directory"
ITSELF = "that is what is to be simulated"


@pytest.mark.parametrize(
    "args, said",
    [
        pytest.param(
            ["--report", "{tmp}/none/x.html"], f"--report {{tmp}}/none/x.html: {NO_ENTRY}", id="no such folder"
        ),
        pytest.param(["--report", "{tmp}"], "--report {tmp}: cannot be written: Is a directory", id="a folder"),
        pytest.param(["--report", "{tmp}/small.yaml"], f"--report {{tmp}}/small.yaml: {ITSELF}", id="the scenario"),
        pytest.param(["--report", "{tmp}/link"], f"--report {{tmp}}/link: {ITSELF}", id="a link to the scenario"),
        pytest.param(
            ["--parquet", "{tmp}/link"], "--parquet {tmp}/link: cannot be written: File exists", id="no folder"
        ),
        pytest.param(["--why", "b", "--report", "{tmp}/x"], "--why: not together with", id="a question has no report"),
        pytest.param(["--why", "b", "--parquet", "{tmp}/x"], "--why: not together with", id="a question has no tables"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_simulated(tmp_path: Path, scenario: Path, args, said):
    (tmp_path / "link").symlink_to(scenario)

    done = muster(scenario, *(arg.format(tmp=tmp_path) for arg in args))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said.format(tmp=tmp_path))
    assert scenario.read_text(encoding="utf-8") == SMALL
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "small.yaml"]


def test_a_missing_library_is_said_with_what_to_install(tmp_path: Path, scenario: Path):
    done = muster(scenario, "--parquet", tmp_path / "x", command=WITHOUT_PYARROW)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"--parquet {tmp_path / 'x'}: needs pyarrow: pip install 'muster-scheduler[parquet]'\n"
    assert not (tmp_path / "x").exists()


def test_devices_are_written_to_and_not_replaced(scenario: Path):
    thrown, full = muster(scenario, "--report", "/dev/null"), muster(scenario, "--report", "/dev/full")

    assert thrown.returncode == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert (full.returncode, full.stderr) == (2, "--report /dev/full: cannot be written: No space left on device\n")


def test_a_link_stays_a_link_and_an_older_report_is_replaced(tmp_path: Path, scenario: Path):
    (tmp_path / "old.html").write_text("old", encoding="utf-8")
    (tmp_path / "link.html").symlink_to(tmp_path / "old.html")

    assert muster(scenario, "--report", tmp_path / "link.html").returncode == 0

    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "old.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["{tmp}/small.yaml", "--record", "{tmp}/none/record"], id="a record cannot be written"),
        pytest.param(["{tmp}/none.yaml"], id="there is no scenario"),
        pytest.param(["{tmp}/small.yaml", "--pools", "-o", "jsonl"], id="flags do not go together"),
    ],
)
def test_when_something_else_is_wrong_an_older_report_stays(tmp_path: Path, scenario: Path, args):
    report = tmp_path / "out.html"
    report.write_text("old", encoding="utf-8")

    done = muster(*(arg.format(tmp=tmp_path) for arg in args), "--report", report, "--parquet", tmp_path / "tables")

    assert done.returncode == 2
    assert report.read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "small.yaml"]


def test_neither_a_trace_nor_the_file_beside_it_is_replaced(tmp_path: Path):
    trace, config = tmp_path / "t.swf", tmp_path / "config.yaml"
    trace.write_text("1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 -1 -1 -1\n", encoding="utf-8")
    config.write_text("config: {reservations: 1}\n", encoding="utf-8")

    for target in (trace, config):
        done = muster(config, "--trace", trace, "--nodes", "4", "--report", target)
        assert (done.returncode, done.stderr) == (2, f"--report {target}: that is what is to be simulated\n")
    assert muster(config, "--trace", trace, "--nodes", "4", "--report", tmp_path / "out.html").returncode == 0

    assert "<h1>t.swf</h1>" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_who_stops_the_simulation_is_left_with_no_half_file(tmp_path: Path):
    file, report, folder = tmp_path / "long.yaml", tmp_path / "out.html", tmp_path / "tables"
    file.write_text(LONG, encoding="utf-8")
    report.write_text("old", encoding="utf-8")
    command = [*MUSTER, "simulate", str(file), "-o", "jsonl", "--report", str(report), "--parquet", str(folder)]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=unbuffered)
    assert running.stdout is not None
    first = running.stdout.readline()  # it is under way
    was_there = folder.exists()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)

    assert was_there
    assert json.loads(first)["event"] == "submitted"
    assert (running.returncode, err) == (130, "interrupted\n")
    assert report.read_text(encoding="utf-8") == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.yaml", "out.html"]
