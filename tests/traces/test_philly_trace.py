"""The Philly trace, read and refused."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from muster.model.resources import GPU
from muster.sim.scenario.problems import ScenarioError
from muster.sim.traces import philly
from muster.sim.traces.shaping import Machine

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"
OCTOBER = philly.Reading(since=datetime(2017, 10, 1, tzinfo=UTC), until=datetime(2017, 11, 1, tzinfo=UTC))


def read(folder: Path, *lines: str, header: str = HEADER) -> list[tuple[str, int, int, int, int | None]]:
    """What matters of each job: queue, submit, tasks, GPUs of each, run time."""
    path = folder / "philly.csv"
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    found = philly.jobs(str(path), Machine(64, 8, GPU), OCTOBER)
    return [
        (
            entry.job.queue,
            entry.job.submit_ms // 1000,
            entry.job.profile.tasks_min,
            entry.job.profile.groups[0].request.gpus,
            entry.runtime_ms,
        )
        for entry in found
    ]


def test_jobs_of_the_time_asked_for_come_in_order_and_wide_ones_on_whole_nodes(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "2017-10-02 00:00:00,66.0,12,66.0,b",
        "2017-10-01 00:00:10,7,1,7,a",
        "2017-11-01 00:00:00,7,1,7,a",
        "2017-09-30 23:59:59,7,1,7,a",
    )

    assert found == [("a", 10, 1, 1, 7000), ("b", 86_400, 2, 8, 66_000)]


@pytest.mark.parametrize(
    "line, words",
    [
        pytest.param("yesterday,1,1,1,a", "line 2: timestamp: 'yesterday' is not allowed", id="no moment"),
        pytest.param("2017-10-02 00:00:00,1,0,1,a", "line 2: num_gpus: '0' is not allowed", id="no GPU"),
        pytest.param("2017-10-02 00:00:00,1,999,1,a", "at most the 512 there are", id="more than there are"),
        pytest.param("2017-10-02 00:00:00,1", "has 5 fields, this line has 2", id="cut"),
    ],
)
def test_a_bad_line_of_the_trace_is_named(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        read(tmp_path, line)

    assert words in str(refused.value)


def test_another_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="header"):
        read(tmp_path, header="job,user")
