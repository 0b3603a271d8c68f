"""The Standard Workload Format, read and refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from muster.model.resources import CPU
from muster.sim.scenario.problems import ScenarioError
from muster.sim.traces import swf
from muster.sim.traces.choices import Format
from muster.sim.traces.formats import Trace, machine_of
from muster.sim.traces.loading import load_trace, repeated
from muster.sim.traces.shaping import Machine

HEADER = "; Version: 2.2\n; MaxNodes: 4\n; MaxProcs: 8\n"
#        job submit wait run got cpu mem asked time mem status user group app queue part prev think
FIRST = "1   10     0    60  2   -1  -1  4     120  -1  1      7    3     -1  2     -1   -1   -1"
NEVER_RAN = "2   20 0 -1  2 -1 -1 4 120 -1 5 7 3 -1 2 -1 -1 -1"
UNKNOWN = "3   30 0 90 8 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1"


def written(folder: Path, *lines: str) -> str:
    """A log with these lines."""
    path = folder / "log.swf"
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def read(path: str, **how: object) -> list[tuple[str, str, int, int, int | None, int | None]]:
    """What matters of each job: id, queue, processors, submit, expected and real time in seconds."""
    found = swf.jobs(path, Machine(1, 8), swf.Reading(**how))  # type: ignore[arg-type]
    return [
        (
            entry.job.id,
            entry.job.queue,
            entry.job.profile.least.get(CPU) // 1000,
            entry.job.submit_ms // 1000,
            None if entry.job.expected_ms is None else entry.job.expected_ms // 1000,
            None if entry.runtime_ms is None else entry.runtime_ms // 1000,
        )
        for entry in found
    ]


@pytest.mark.parametrize(
    "how, expected",
    [
        pytest.param({}, [("1", "all", 4, 10, 120, 60), ("3", "all", 8, 30, 90, 90)], id="what users asked for"),
        pytest.param(
            {"expected": swf.Expected.EXACT},
            [("1", "all", 4, 10, 60, 60), ("3", "all", 8, 30, 90, 90)],
            id="run times are known exactly",
        ),
        pytest.param(
            {"expected": swf.Expected.UNKNOWN},
            [("1", "all", 4, 10, None, 60), ("3", "all", 8, 30, None, 90)],
            id="nobody knows run times",
        ),
        pytest.param(
            {"queue_by": swf.QueueBy.USER},
            [("1", "user-7", 4, 10, 120, 60), ("3", "no-user", 8, 30, 90, 90)],
            id="users are queues, and who has none shares one",
        ),
        pytest.param({"first": 1}, [("3", "all", 8, 30, 90, 90)], id="from a place on"),
        pytest.param({"many": 1}, [("1", "all", 4, 10, 120, 60)], id="so many at most"),
    ],
)
def test_a_log_is_read(tmp_path: Path, how: dict[str, object], expected: list[object]) -> None:
    assert read(written(tmp_path, FIRST, NEVER_RAN, UNKNOWN), **how) == expected


def test_a_compressed_log_is_read_alike(tmp_path: Path) -> None:
    plain = written(tmp_path, FIRST)
    packed = tmp_path / "log.swf.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))

    assert read(str(packed)) == read(plain)
    assert swf.processors(str(packed)) == 8


@pytest.mark.parametrize(
    "line, words",
    [
        pytest.param(
            "1 10 0 60", "line 4: a line of the Standard Workload Format has 18 fields, this line has 4", id="cut"
        ),
        pytest.param(
            FIRST.replace("60", "x"), "line 4: run time: 'x' is not allowed: a number from 0 on", id="no number"
        ),
        pytest.param(FIRST.replace("60", "nan"), "line 4: run time: 'nan' is not allowed", id="not even a number"),
        pytest.param(FIRST.replace("10 ", "-5 "), "line 4: submit time: '-5' is not allowed", id="before time"),
        pytest.param(
            FIRST.replace("  4  ", "  9  "), "at most the 8 there are; see --nodes", id="wider than the machine"
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(written(tmp_path, line))

    assert words in str(refused.value)


@pytest.mark.parametrize(
    "content, words",
    [
        pytest.param(b"", "has no jobs that ran", id="empty"),
        pytest.param(b"\x1f\x8b\x08garbage", "cannot be read", id="broken gzip"),
        pytest.param(f"{UNKNOWN}\n{FIRST}".encode(), "in the order of submission", id="not in the order of submission"),
    ],
)
def test_a_log_that_is_none_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)

    with pytest.raises(ScenarioError) as refused:
        load_trace(Trace(path=str(path), format=Format.SWF, nodes="8"))

    assert words in str(refused.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        load_trace(Trace(path=str(tmp_path / "none.swf"), format=Format.SWF))


def test_a_job_wider_than_a_node_is_a_gang_that_fills_nodes() -> None:
    profile = machine_of("4x8", CPU).profile(20)

    widths = {(group.min, group.request.resources.get(CPU) // 1000) for group in profile.groups}
    assert widths == {(2, 8), (1, 4)}


def test_a_log_is_repeated_later_each_time(tmp_path: Path) -> None:
    scenario = load_trace(Trace(path=written(tmp_path, FIRST, UNKNOWN), format=Format.SWF, nodes="8"))

    again = list(repeated(scenario.jobs, 5))

    assert [entry.job.id for entry in again] == ["1", "3", "1-2", "3-2", "1-3"]
    assert [entry.job.submit_ms for entry in again] == [0, 20_000, 30_000, 50_000, 60_000]
