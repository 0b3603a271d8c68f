"""The command line as people and scripts meet it: output, exit codes, wrong input, interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]
SMALL = """
clusters: [{name: c, nodes: [{name: n, cpu: 2}]}]
queues: [{name: q}]
jobs:
  - {name: a, queue: q, cpu: 2, runtime: 10s, expectedRuntime: 10s}
  - {name: b, queue: q, cpu: 2, runtime: 5s, expectedRuntime: 5s}
"""


def muster(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUSTER, *args], input=stdin, capture_output=True, text=True, timeout=60, check=False)


def test_jsonl_prints_events_and_nothing_else():
    done = muster("simulate", "/dev/stdin", "-o", "jsonl", stdin=SMALL)

    log = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert [(line["t"], line["event"], line["job"]) for line in log] == [
        (0.0, "submitted", "a"),
        (0.0, "submitted", "b"),
        (0.0, "admitted", "a"),
        (0.0, "started", "a"),
        (0.0, "admitted", "b"),
        (0.0, "waiting", "b"),
        (10.0, "succeeded", "a"),
        (10.0, "started", "b"),
        (15.0, "succeeded", "b"),
    ]
    assert log[3] == {
        "t": 0.0, "event": "started", "job": "a", "cluster": "c", "attempt": 1, "tasks": {"main-0": "n"}
    }  # fmt: skip
    assert (log[5]["reason"], log[5]["estimate"]) == ("RESERVED", 10.0)


def test_a_wrong_setting_of_the_kernels_is_told_like_wrong_input(monkeypatch):
    monkeypatch.setenv("MUSTER_KERNELS", "fast")

    done = muster("simulate", "/dev/stdin", stdin=SMALL)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "MUSTER_KERNELS: 'fast': must be plain, compiled or auto\n"


def test_summary_is_one_json_object():
    told = json.loads(muster("simulate", "/dev/stdin", "-o", "summary", stdin=SMALL).stdout)

    assert told["jobs"]["b"]["start"] == 10.0
    assert told["queues"]["q"] == {"started": 2, "usage": 2.0, "share": 1.0}
    assert told["clusters"]["c"]["utilisation"] == {"cpu": 1.0}
    assert told["totals"]["makespan"] == 15.0
    assert told["totals"]["meanWait"] == 5.0
    assert told["totals"]["meanBoundedSlowdown"] == 1.25


def test_every_turn_and_check_change_nothing():
    plain = muster("simulate", "/dev/stdin", "-o", "jsonl", stdin=SMALL)
    thorough = muster("simulate", "/dev/stdin", "-o", "jsonl", "--every-turn", "--check", stdin=SMALL)

    assert (thorough.stdout, thorough.returncode) == (plain.stdout, 0)


@pytest.mark.parametrize(
    "text, named",
    [
        pytest.param("jobs: [{name: a, cpu: -1}]", ["line 1", "jobs[0].cpu", "-1"], id="a negative amount"),
        pytest.param(SMALL + "  - {name: c, queue: q, cqu: 1}\n", ["line 7", "cqu", "cpu"], id="a misspelt key"),
        pytest.param("a: 1\na: 2\n", ["line 2", "a"], id="a duplicate key"),
        pytest.param("a: &a [*a]\n", ["line 1"], id="a recursive anchor"),
        pytest.param("jobs: [", ["line 2"], id="broken YAML"),
        pytest.param("", [], id="nothing at all"),
        pytest.param(SMALL.replace("b, queue: q", "b, queue: z"), ["jobs[1].queue", "'z'", "q"], id="unknown queue"),
    ],
)
def test_wrong_input_is_named_and_gets_exit_code_2(text, named):
    done = muster("simulate", "/dev/stdin", stdin=text)

    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for name in named:
        assert name in done.stderr


@pytest.mark.parametrize(
    "path", [pytest.param("/no/such/file.yaml", id="no such file"), pytest.param(".", id="a folder")]
)
def test_a_file_that_cannot_be_read_is_said_so(path):
    done = muster("simulate", path)

    assert (done.returncode, done.stdout) == (2, "")
    assert path in done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_every_command_has_an_example_and_unknown_options_are_refused():
    assert "simulate" in muster("--help").stdout
    assert "Example" in muster("simulate", "--help").stdout
    assert muster("simulate", "--nonsense", "x").returncode == 2


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom muster.cli import main\n"
        "heavy = {'numpy', 'yaml', 'muster.engine', 'muster.sim', 'muster.state', 'rich.table'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path):
    big = tmp_path / "big.yaml"
    big.write_text(SMALL + "  - {name: many, count: 3000, queue: q, cpu: 1, runtime: 1s}\n", encoding="utf-8")
    muster_process = subprocess.Popen(
        [*MUSTER, "simulate", str(big), "-o", "jsonl"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert muster_process.stdout is not None
    assert muster_process.stdout.readline().startswith("{")
    muster_process.stdout.close()
    assert muster_process.stderr is not None
    errors = muster_process.stderr.read()
    muster_process.stderr.close()

    assert muster_process.wait(timeout=60) == 0
    assert errors == ""


def test_ctrl_c_ends_with_130_and_without_a_traceback(tmp_path: Path):
    big = tmp_path / "big.yaml"
    big.write_text(SMALL + "  - {name: many, count: 20000, queue: q, cpu: 1, runtime: 1s}\n", encoding="utf-8")
    process = subprocess.Popen(
        [*MUSTER, "simulate", str(big), "-o", "jsonl"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is under way
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130
    assert errors.strip() == "interrupted"
