"""What ends attempts is counted by its kind, and each kind is forgiven as often as the job says. Told by scenarios."""

from __future__ import annotations

from typing import Any

import pytest
from story import Story, gang, job, story, world

from muster.state.records import Phase, Record

FAILS = [{"at": moment, "failTask": "j/main-0"} for moment in (10, 20, 30)]
THREE_NODES = [{"name": "n", "count": 3, "cpu": 1}]
LOSSES = [{"at": moment, "removeNode": f"n-{number}"} for number, moment in enumerate((10, 20))]
URGENT = [job(f"u{moment}", "B", at=moment, runtime=5, priorityClass="high") for moment in (100, 300, 500)]


def fate(told: Story, name: str = "j") -> tuple[Record, str | None]:
    """How the job stands at the end, and the cause of its end."""
    causes = [
        line.get("cause") for line in told.log if line["job"] == name and line["event"] in ("failed", "cancelled")
    ]
    return told.simulation.state.jobs[name], next(iter(causes), None)


@pytest.mark.parametrize(
    "retries, record, cause",
    [
        pytest.param(None, Record(Phase.FAILED, 1, failures=1), "failed", id="nobody asked for another attempt"),
        pytest.param(
            1,
            Record(Phase.FAILED, 2, failures=2),
            "failed 2 times; retries.failed allows 1",
            id="a number is for its own failures",
        ),
        pytest.param(
            {"failed": 2},
            Record(Phase.FAILED, 3, failures=3),
            "failed 3 times; retries.failed allows 2",
            id="the last failure is counted too",
        ),
        pytest.param(3, Record(Phase.SUCCEEDED, 4, failures=3), None, id="as many as it is forgiven"),
        pytest.param(
            {"lost": 9, "preempted": 9},
            Record(Phase.FAILED, 1, failures=1),
            "failed",
            id="what else is forgiven does not help it",
        ),
    ],
)
def test_own_failures(retries: Any, record: Record, cause: str | None) -> None:
    given = {} if retries is None else {"retries": retries}
    told = story(world(nodes=1, jobs=[job("j", runtime=60, **given)], events=FAILS))

    assert fate(told) == (record, cause)


@pytest.mark.parametrize(
    "retries, record, cause",
    [
        pytest.param(0, Record(Phase.SUCCEEDED, 3, losses=2), None, id="losses are free unless someone says so"),
        pytest.param({"lost": 2}, Record(Phase.SUCCEEDED, 3, losses=2), None, id="as many as it is forgiven"),
        pytest.param(
            {"failed": 9, "lost": 1},
            Record(Phase.FAILED, 2, losses=2),
            "lost 2 times; retries.lost allows 1",
            id="one more than it is forgiven",
        ),
        pytest.param(
            {"lost": 0},
            Record(Phase.FAILED, 1, losses=1),
            "lost once; retries.lost allows 0",
            id="a job that must not run twice",
        ),
    ],
)
def test_lost_attempts(retries: Any, record: Record, cause: str | None) -> None:
    told = story(world(nodes=THREE_NODES, jobs=[job("j", runtime=60, retries=retries)], events=LOSSES))

    assert fate(told) == (record, cause)


@pytest.mark.parametrize(
    "retries, record, cause",
    [
        pytest.param(
            0, Record(Phase.SUCCEEDED, 4, preemptions=3), None, id="giving way is free unless someone says so"
        ),
        pytest.param(
            {"preempted": 2},
            Record(Phase.FAILED, 3, preemptions=3),
            "preempted 3 times; retries.preempted allows 2",
            id="one more than it is forgiven",
        ),
    ],
)
def test_preempted_attempts(retries: Any, record: Record, cause: str | None) -> None:
    told = story(
        world(
            nodes=[{"name": "n", "cpu": 1}],
            queues=[{"name": "A"}, {"name": "B"}],
            priorityClasses={"high": 1000},
            jobs=[job("j", "A", runtime=250, retries=retries), *URGENT],
            config={"overShare": "off"},
        )
    )

    assert fate(told) == (record, cause)
    assert told.starts() == {"j": 0, "u100": 100, "u300": 300, "u500": 500}  # whoever came got the room either way


def test_each_kind_is_counted_by_itself() -> None:
    told = story(
        world(
            nodes=THREE_NODES,
            jobs=[job("j", runtime=60, retries={"failed": 1, "lost": 1})],
            events=[FAILS[0], {"at": 20, "removeNode": "n-0"}],
        )
    )

    assert fate(told) == (Record(Phase.SUCCEEDED, 3, failures=1, losses=1), None)


@pytest.mark.parametrize(
    "least, events, record",
    [
        pytest.param(
            4,
            ["started j", "requeued j", "started j"],
            Record(Phase.SUCCEEDED, 2, losses=1),
            id="below its min the whole gang starts again, once for both tasks it lost",
        ),
        pytest.param(
            2,
            ["started j", "resized j"],
            Record(Phase.SUCCEEDED, 1),
            id="above its min it goes on, and nothing is counted",
        ),
    ],
)
def test_a_node_with_two_of_four_tasks_is_lost(least: int, events: list[str], record: Record) -> None:
    group = {"name": "w", "min": least, "initial": 4, "max": 4, "cpu": 1}
    told = story(
        world(
            nodes=[{"name": "n", "count": 2, "cpu": 2}, {"name": "spare", "cpu": 1}],
            jobs=[{**gang("j", 4), "groups": [group], "runtime": 60, "retries": {"lost": 1}, "freezingWindow": "1h"}],
            events=[
                {"at": 10, "removeNode": "n-0"},
                {"at": 20, "addNodes": {"cluster": "east", "nodes": [{"name": "x", "cpu": 2}]}},
            ],
        )
    )

    assert told.events("started", "requeued", "resized", "failed") == events
    assert fate(told) == (record, None)
