"""How many may have a reservation: none, the first in line (EASY), everyone (conservative)."""

from __future__ import annotations

from typing import Any

import pytest
from story import Entry, job, story, world

from muster.sim.scenario.loader import parse
from muster.sim.scenario.problems import ScenarioError

FOUR_CORES = [{"name": "n", "cpu": 4}]


def known(name: str, cpu: int, seconds: int, at: int = 0) -> Entry:
    return job(name, cpu=cpu, at=at, runtime=seconds, expectedRuntime=seconds)


IN_LINE = [
    known("busy", 2, 100),
    known("first", 3, 100, at=1),
    known("second", 3, 100, at=2),  # the same shape as the first
    known("third", 4, 100, at=3),
    known("slim", 1, 1000, at=4),  # fits beside the first two, and is then in the way of the third
]


@pytest.mark.parametrize(
    "reservations, starts",
    [
        pytest.param(
            1, {"first": 100, "second": 200, "slim": 4, "third": 1004}, id="EASY: who fits beside the first overtakes"
        ),
        pytest.param(
            2,
            {"first": 100, "second": 300, "third": 200, "slim": 300},
            id="two: of one shape only the first has one, and the third overtakes the second",
        ),
        pytest.param(
            "all", {"first": 100, "second": 200, "third": 300, "slim": 400}, id="conservative: nobody is overtaken"
        ),
    ],
)
def test_a_slim_job_overtakes_only_those_without_a_reservation(reservations: Any, starts: dict[str, float]):
    told = story(world(nodes=FOUR_CORES, jobs=IN_LINE, config={"reservations": reservations, "overShare": "off"}))

    assert told.starts() == {"busy": 0, **starts}


def test_when_everyone_may_reserve_short_jobs_still_slip_by():
    short = known("short", 2, 90, at=5)

    told = story(world(nodes=FOUR_CORES, jobs=[*IN_LINE, short], config={"reservations": "all", "overShare": "off"}))

    assert told.starts() == {"busy": 0, "short": 5, "first": 100, "second": 200, "third": 300, "slim": 400}


def test_everyone_is_told_when_they_will_start():
    told = story(world(nodes=FOUR_CORES, jobs=IN_LINE, config={"reservations": "all", "overShare": "off"}))

    names = ("first", "second", "third", "slim")
    assert {name: (told.reason(name), told.facts(name)["start"]) for name in names} == {
        "first": ("RESERVED", 100),
        "second": ("RESERVED", 200),
        "third": ("RESERVED", 300),
        "slim": ("RESERVED", 400),
    }


@pytest.mark.parametrize("wrong", ["everyone", 17, -1, "0.5"])
def test_other_numbers_of_reservations_are_refused(wrong: Any):
    with pytest.raises(ScenarioError) as refused:
        parse(f"config: {{reservations: {wrong}}}\nclusters: []\njobs: []\n")

    assert "reservations" in str(refused.value)
    assert "a whole number from 0 to 16, or all" in str(refused.value)
