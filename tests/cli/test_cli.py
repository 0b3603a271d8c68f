"""The command line as people and scripts meet it: output, exit codes, wrong input, interruption."""

from __future__ import annotations

import gzip
import hashlib
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
    assert told["clusters"]["c"] == {"utilisation": {"cpu": 1.0}, "goodput": {"cpu": 1.0}}
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


def test_the_list_of_commands_is_the_same_however_it_is_made():
    whole = (
        "import sys\nfrom muster.cli import main\n"
        "sys.argv = ['muster', '--help']\nmain.evaluate_annotations(main.app)\nmain.app(prog_name='muster')"
    )
    made = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=False)
    quick = "import sys\nfrom muster.cli import main\nsys.argv = ['muster', '--help']\nmain.main()"
    told = subprocess.run([sys.executable, "-c", quick], capture_output=True, text=True, check=False)

    assert "simulate" in told.stdout
    assert told.stdout == made.stdout


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom muster.cli import main\n"
        "heavy = {'numpy', 'yaml', 'muster.model', 'muster.engine', 'muster.state', 'muster.sim.scenario'}\n"
        "heavy = (heavy | {'rich.table', 'httpx2', 'msgspec', 'asyncio', 'muster.sdk'}) & set(sys.modules)\n"
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
    big.write_text(SMALL + "  - {name: many, count: 4000, queue: q, cpu: 1, runtime: 1s}\n", encoding="utf-8")
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


# --- recorded turns, questions ------------------------------------------------------------------


def _scenario(tmp_path: Path) -> str:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL, encoding="utf-8")
    return str(file)


def test_a_recorded_simulation_prints_the_same_and_replays_as_identical(tmp_path: Path):
    record = str(tmp_path / "turns.muster")
    plain = muster("simulate", _scenario(tmp_path), "-o", "jsonl")

    recorded = muster("simulate", _scenario(tmp_path), "-o", "jsonl", "--record", record)
    replayed = muster("replay", record)

    assert (recorded.returncode, recorded.stdout) == (0, plain.stdout)
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.startswith("all 3 plans are identical (2 jobs, 12 events; recorded by Muster ")
    assert json.loads(muster("replay", record, "-o", "json").stdout)["identical"] is True


def test_a_record_of_other_decisions_is_told_and_gets_exit_code_1(tmp_path: Path):
    record = tmp_path / "turns.muster"
    muster("simulate", _scenario(tmp_path), "--record", str(record))
    body, _, _ = gzip.decompress(record.read_bytes()).rpartition(b'["end"')
    body = body.replace(b'["Start",["a","q",1,"c",[["main",0,"n"]]]]', b'["Start",["a","q",1,"c",[["main",0,"m"]]]]')
    end = json.dumps(["end", 3, hashlib.sha256(body).hexdigest()], separators=(",", ":")).encode()
    record.write_bytes(gzip.compress(body + end + b"\n"))

    done = muster("replay", str(record))
    told = json.loads(muster("replay", str(record), "-o", "json").stdout)

    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [
        "turn 1 of 3, at 00:00:00: action 1 is another",
        "  recorded  Start job=a tasks=[main-0@m]",
        "  now       Start job=a tasks=[main-0@n]",
    ]
    assert (told["identical"], told["differing"], told["first"]["turn"]) == (False, [1], 1)


@pytest.mark.parametrize(
    "content, said",
    [
        pytest.param(b"", "empty", id="an empty file"),
        pytest.param(b"jobs: []", "not a record of Muster", id="a scenario"),
        pytest.param(b"\x1f\x8b\x08\x00", "breaks off", id="the beginning of a record"),
    ],
)
def test_a_file_that_is_no_record_gets_exit_code_2(tmp_path: Path, content: bytes, said: str):
    file = tmp_path / "x"
    file.write_bytes(content)

    done = muster("replay", str(file))

    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_record_that_cannot_be_written_is_said_so(tmp_path: Path):
    for target in ("/no/such/folder/x", "/dev/full"):
        done = muster("simulate", _scenario(tmp_path), "--record", target)

        assert done.returncode == 2
        assert f"--record {target}: cannot be written" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_record_never_takes_the_place_of_its_scenario(tmp_path: Path):
    file = _scenario(tmp_path)

    done = muster("simulate", file, "--record", file)

    assert (done.returncode, Path(file).read_text(encoding="utf-8")) == (2, SMALL)
    assert "that is the scenario itself" in done.stderr


def test_whatif_answers_in_json_what_would_start_when(tmp_path: Path):
    new = "{name: x, cpu: 2, queue: q, runtime: 1s, expectedRuntime: 1s}"
    event = "{addNodes: {cluster: c, nodes: [{name: m, cpu: 2}]}}"

    done = muster("whatif", _scenario(tmp_path), "--at", "2", "--event", event, "--submit", new, "-o", "json")

    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr, told["at"]) == (0, "", 2.0)
    assert (told["jobs"]["b"]["without"]["starts"], told["jobs"]["b"]["with"]["starts"]) == ([10.0], [2.0])
    assert (told["jobs"]["b"]["earlier"], told["jobs"]["a"]["changed"]) == (8.0, False)
    assert (told["jobs"]["x"]["new"], told["jobs"]["x"]["with"]["starts"]) == (True, [7.0])


@pytest.mark.parametrize(
    "args, said",
    [
        pytest.param([], "give --event, --submit or both", id="no question"),
        pytest.param(["--event", "{cancel: z}"], "--event: cancel: 'z' is not allowed", id="no such job"),
        pytest.param(["--at", "x", "--event", "{cancel: a}"], "--at: 'x' is not allowed", id="no such time"),
    ],
)
def test_a_whatif_that_cannot_be_answered_gets_exit_code_2(tmp_path: Path, args: list[str], said: str):
    done = muster("whatif", _scenario(tmp_path), *args)

    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    "question, said",
    [
        pytest.param("b@3", "b (1 task of 2 cpu, queue q) has waited for 3s at 00:00:03.", id="while it waits"),
        pytest.param("b@12", "b started at 00:00:10 on n (attempt 1), 10s after it was submitted.", id="while it runs"),
        pytest.param("b", "and succeeded at 00:00:15. When it last waited:", id="when it last waited"),
        pytest.param("a", "It never waited.", id="a job that never waited"),
    ],
)
def test_why_tells_of_the_moment_that_was_asked_about(tmp_path: Path, question: str, said: str):
    done = muster("simulate", _scenario(tmp_path), "--why", question)

    assert (done.returncode, done.stderr) == (0, "")
    assert said in " ".join(done.stdout.split())


def test_why_in_json_has_the_facts(tmp_path: Path):
    told = json.loads(muster("simulate", _scenario(tmp_path), "--why", "b@3", "-o", "summary").stdout)

    assert (told["job"], told["waiting"]["reason"], told["waiting"]["estimate"]["start"]) == ("b", "RESERVED", 10.0)
    assert told["waiting"]["nodes"][0] | {"allocatable": None} == {
        "group": "main", "dimension": "cpu", "count": 1, "first": "n", "allocatable": None, "asked": "2", "most": "0"
    }  # fmt: skip


@pytest.mark.parametrize(
    "question, said",
    [
        pytest.param("c", "'c' is not a job of this file: it has a, b", id="a job that is not there"),
        pytest.param("b@soon", "'soon' is not allowed: a duration", id="no time"),
        pytest.param("b@1h", "nothing happens after 00:00:15", id="a time after the end"),
        pytest.param("", "'' is not a job of this file", id="nothing"),
    ],
)
def test_a_why_that_cannot_be_answered_gets_exit_code_2(tmp_path: Path, question: str, said: str):
    done = muster("simulate", _scenario(tmp_path), "--why", question)

    assert (done.returncode, done.stdout) == (2, "")
    assert f"--why: {said}" in done.stderr
