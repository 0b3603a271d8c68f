"""Goodput is utilisation without what was thrown away: known answers by hand, and the same sums made again slowly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from story import gang, job, world
from worlds import EVERYTHING, POOLS, WIDTHS, Knobs, scenarios

from muster.model.events import JobCancelled, JobFailed, JobRequeued
from muster.sim.goodput import keeping
from muster.sim.measures import Gauge
from muster.sim.scenario.loader import parse
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary

NODE = [{"name": "n", "cpu": 4}]
CLASSES = {"priorityClasses": {"high": 10}}
PERCENT = 1e-6


def summed_up(scenario: Scenario | Mapping[str, Any]) -> tuple[dict[str, Any], Gauge]:
    """The summary of a simulation to its end, and a gauge that saw it too."""
    if not isinstance(scenario, Scenario):
        scenario = parse(yaml.safe_dump(dict(scenario), sort_keys=False))
    simulation = Simulation(scenario, estimates=False)
    summary, gauge = Summary(simulation), Gauge(simulation)
    for tick in simulation:
        summary.add(tick)
        gauge.add(tick)
    return summary.totals(), gauge


def a_world(*jobs: dict[str, Any], **rest: Any) -> dict[str, Any]:
    """A machine of four cores, for ten seconds unless it says otherwise."""
    given_ = {"nodes": NODE, "queues": [{"name": "A"}, {"name": "B"}], "until": 10, **rest}
    return world(jobs=jobs, **{"config": {"overShare": "off"}, **given_})


ELASTIC = {"name": "w", "min": 1, "initial": 4, "max": 4, "cpu": 1}
KEPT = {"runtime": {"work": "1h", "kept": True}}
HIGH = job("high", "B", at=5, cpu=4, runtime=5, priorityClass="high")

WORLDS = [
    pytest.param(
        a_world(job("a", count=2, runtime=10), job("b", runtime=5)),
        (2 * 10 + 5) / 40,
        (2 * 10 + 5) / 40,
        id="nothing was lost: all that was held was good",
    ),
    pytest.param(
        a_world(job("a", cpu=2), until=10),
        20 / 40,
        20 / 40,
        id="an attempt that still runs at the end is good until then",
    ),
    pytest.param(
        a_world(job("low", cpu=2, runtime=20), HIGH, **CLASSES),
        (5 * 2 + 5 * 4) / 40,
        5 * 4 / 40,
        id="an attempt that was preempted threw its time away",
    ),
    pytest.param(
        a_world(job("low", cpu=2, runtime=5), {**HIGH, "at": 1, "runtime": 4}, until=10, **CLASSES),
        (1 * 2 + 4 * 4 + 5 * 2) / 40,
        (4 * 4 + 5 * 2) / 40,
        id="the attempt after it did not",
    ),
    pytest.param(
        a_world(job("a", cpu=4, runtime=6, retries=1), events=[{"at": 2, "failTask": "a/main-0"}]),
        8 * 4 / 40,
        6 * 4 / 40,
        id="an attempt that failed and is tried again threw its time away",
    ),
    pytest.param(
        a_world(
            job("a", cpu=4, runtime=6), job("b", "B", cpu=4, runtime=3), events=[{"at": 2, "failTask": "a/main-0"}]
        ),
        5 * 4 / 40,
        3 * 4 / 40,
        id="so did a job that failed for good",
    ),
    pytest.param(
        a_world(job("a", cpu=4), events=[{"at": 6, "cancel": "a"}]), 24 / 40, 0, id="and one that was cancelled"
    ),
    pytest.param(
        a_world(job("a", cpu=1), job("b", cpu=3, runtime=8), events=[{"at": 9, "cancel": "a"}]),
        (9 + 24) / 40,
        24 / 40,
        id="of others that ran beside it nothing is taken",
    ),
    pytest.param(
        a_world(job("a", cpu=1, timeLimit=4, runtime=8)),
        4 / 40,
        0,
        id="a job that came to its time limit has no result",
    ),
    pytest.param(
        a_world(
            job("a", cpu=4, runtime=20),
            nodes=[{"name": "n", "count": 2, "cpu": 4}],
            events=[{"at": 5, "removeNode": "n-0"}],
        ),
        (5 * 4 + 5 * 4) / (10 * 4 + 5 * 4),
        5 * 4 / (10 * 4 + 5 * 4),
        id="an attempt that was lost with its node threw its time away, though the node is gone",
    ),
    pytest.param(
        a_world({"name": "e", "queue": "A", "groups": [ELASTIC]}, {**HIGH, "cpu": 2}, **CLASSES),
        (5 * 4 + 5 * 4) / 40,
        (5 * 4 + 5 * 4) / 40,
        id="tasks that an elastic job gave up are not thrown away",
    ),
    pytest.param(
        a_world(
            {"name": "e", "queue": "A", "groups": [ELASTIC]},
            {**HIGH, "cpu": 2},
            events=[{"at": 9, "cancel": "e"}],
            **CLASSES,
        ),
        (5 * 4 + 4 * 4 + 1 * 2) / 40,
        5 * 2 / 40,
        id="unless it came to nothing: then all that it held at each width",
    ),
    pytest.param(
        a_world({"name": "e", "queue": "A", "groups": [ELASTIC], **KEPT}, HIGH, **CLASSES),
        (5 * 4 + 5 * 4) / 40,
        (5 * 4 + 5 * 4) / 40,
        id="a job that keeps its work throws nothing away when it is preempted",
    ),
    pytest.param(
        a_world(
            {"name": "e", "queue": "A", "groups": [ELASTIC], **KEPT}, HIGH, events=[{"at": 8, "cancel": "e"}], **CLASSES
        ),
        (5 * 4 + 5 * 4) / 40,
        5 * 4 / 40,
        id="unless it is cancelled later, even while it waits",
    ),
    pytest.param(
        a_world(gang("g", 4, runtime=20), {**HIGH, "cpu": 1}, **CLASSES),
        (5 * 4 + 5) / 40,
        5 / 40,
        id="a gang that gave way for one core threw away all its cores",
    ),
]


@pytest.mark.parametrize("scenario, used, good", WORLDS)
def test_goodput_is_utilisation_without_what_was_thrown_away(scenario: Any, used: float, good: float) -> None:
    told, gauge = summed_up(scenario)
    report = gauge.result()

    for place in (told["clusters"]["east"], told["totals"]):
        assert place["utilisation"] == {"cpu": pytest.approx(used, abs=PERCENT)}
        assert place["goodput"] == {"cpu": pytest.approx(good, abs=PERCENT)}
    assert report.used == {"cpu": pytest.approx(used)}
    assert report.good == {"cpu": pytest.approx(good)}


def test_goodput_is_told_by_resource_and_wasted_gpu_time_is_the_same_time() -> None:
    nodes = [{"name": "n", "cpu": 8, "memory": "8Gi", "gpu": 2}]
    low, high = {"cpu": 2, "memory": "4Gi", "gpu": 2, "runtime": 10}, {"cpu": 1, "gpu": 1, "runtime": 5}
    scenario = world(
        nodes=nodes,
        queues=[{"name": "A"}, {"name": "B"}],
        jobs=[job("low", **low), job("high", "B", at=5, priorityClass="high", **high)],
        until=10,
        config={"overShare": "off"},
        **CLASSES,
    )

    totals = summed_up(scenario)[0]["totals"]

    assert totals["utilisation"] == {"cpu": 15 / 80, "memory": 0.25, "nvidia.com/gpu": 15 / 20}
    assert totals["goodput"] == {"cpu": 5 / 80, "memory": 0.0, "nvidia.com/gpu": 5 / 20}
    assert totals["wastedGpuSeconds"] == 10.0


def test_totals_are_those_of_all_clusters_by_what_they_have() -> None:
    clusters = [{"name": name, "nodes": [{"name": f"{name}-n", "cpu": cpu}]} for name, cpu in (("x", 4), ("y", 12))]
    jobs = [job("a", cpu=4, cluster="x"), job("b", cpu=6, cluster="y")]

    told, _ = summed_up(
        world(clusters=clusters, jobs=jobs, queues=[{"name": "A"}], until=10, events=[{"at": 10, "cancel": "a"}])
    )

    assert {name: (it["utilisation"], it["goodput"]) for name, it in told["clusters"].items()} == {
        "x": ({"cpu": 1.0}, {"cpu": 0.0}),
        "y": ({"cpu": 0.5}, {"cpu": 0.5}),
    }
    assert (told["totals"]["utilisation"], told["totals"]["goodput"]) == ({"cpu": 10 / 16}, {"cpu": 6 / 16})


def test_a_pool_that_is_gone_when_an_attempt_comes_to_nothing_loses_what_it_had_of_it() -> None:
    nodes = [{"name": "n", "cpu": 4, "labels": {"pool": "a"}}, {"name": "m", "cpu": 4}]
    scenario = world(
        nodes=nodes,
        pools=[{"name": "a", "nodeSelector": {"pool": "a"}}],
        queues=[{"name": "A"}],
        jobs=[job("mine", pool="a", cpu=3), job("other", cpu=1)],
        events=[{"at": 4, "deletePool": "a"}, {"at": 8, "cancel": "mine"}],
        until=10,
    )

    told, _ = summed_up(scenario)

    assert told["pools"]["a"] == {"utilisation": {"cpu": 0.75}, "goodput": {"cpu": 0.0}}
    assert told["pools"]["default"]["utilisation"] == told["pools"]["default"]["goodput"] == {"cpu": 0.25}
    assert told["totals"]["goodput"] == {"cpu": 10 / 80}


def test_goodput_over_time_lacks_an_attempt_from_its_start_on() -> None:
    _, gauge = summed_up(a_world(job("low", cpu=2, runtime=20), job("steady", cpu=1), {**HIGH, "cpu": 3}, **CLASSES))
    course = gauge.result().course

    per_second = 1000 // course.step_ms
    assert course.used[:, 0].tolist() == pytest.approx([0.75] * 5 * per_second + [1.0] * 5 * per_second)
    assert course.good[:, 0].tolist() == pytest.approx([0.25] * 5 * per_second + [1.0] * 5 * per_second)


# --- every world ------------------------------------------------------------------------------------------


@a_part(3)
@pytest.mark.parametrize("knobs", [EVERYTHING, WIDTHS, POOLS], ids=["everything", "widths", "pools"])
@given(data=st.data())
def test_what_is_not_good_is_what_ended_attempts_held(knobs: Knobs, data: st.DataObject) -> None:
    scenario = data.draw(scenarios(knobs))
    simulation = Simulation(scenario, estimates=False)
    summary, gauge, slow = Summary(simulation), Gauge(simulation), Slow(simulation, scenario)
    for tick in simulation:
        slow.pass_time(tick.moment.now_ms)
        summary.add(tick)
        gauge.add(tick)
        slow.hear(tick.moment.events)
    told, report = summary.totals(), gauge.result()

    whole = told["totals"]
    for places in (told["clusters"], told["pools"], {"all": whole}):
        for place in places.values():
            assert all(0 <= place["goodput"][name] <= part for name, part in place["utilisation"].items())
    for name, part in whole["utilisation"].items():
        there = slow.there.get(name, 0)
        assert part - whole["goodput"][name] == pytest.approx(slow.thrown.get(name, 0) / there, abs=3e-6)
    assert all(0 <= report.good[name] <= part + 1e-9 for name, part in report.used.items())
    course = report.course
    assert ((course.good >= 0) & (course.good <= course.used + 1e-9)).all()


class Slow:
    """The same sums, task by task and moment by moment."""

    def __init__(self, simulation: Simulation, scenario: Scenario) -> None:
        self.state = simulation.state
        self.thrown: dict[str, int] = {}
        self.there: dict[str, int] = {}
        self._keeping = keeping(scenario)
        self._held: dict[str, dict[str, int]] = {}
        self._now_ms = 0
        self._look()

    def _look(self) -> None:
        self._nodes = [node.empty().free for node in self.state.machines.nodes.values()]
        self._running = {name: (run.job.profile, run.tasks) for name, run in self.state.running.items()}

    def pass_time(self, now_ms: int) -> None:
        """Until now all was as it was."""
        span_ms, self._now_ms = now_ms - self._now_ms, now_ms
        for amounts in self._nodes:
            for name, amount in amounts.items():
                self.there[name] = self.there.get(name, 0) + amount * span_ms
        for job_id, (profile, tasks) in self._running.items():
            mine = self._held.setdefault(job_id, {})
            for task in tasks:
                for name, amount in profile.group(task.group).request.resources.items():
                    mine[name] = mine.get(name, 0) + amount * span_ms

    def hear(self, events: Any) -> None:
        """What happened now."""
        for event in events:
            ends = isinstance(event, JobRequeued) and event.job not in self._keeping
            if ends or isinstance(event, JobFailed | JobCancelled):
                for name, amount in self._held.pop(event.job, {}).items():
                    self.thrown[name] = self.thrown.get(name, 0) + amount
        self._look()
