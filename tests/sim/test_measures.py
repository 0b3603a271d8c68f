"""Measures of a simulation: known answers by hand, and all of them worked out again slowly from the state itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import yaml
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from story import gang, job, world
from worlds import EVERYTHING, POOLS, WIDTHS, Knobs, scenarios

from muster.engine.columns.views import floor_of
from muster.engine.never_fits import never_fits
from muster.model.events import NodeAdded
from muster.model.jobs import resources_of
from muster.model.reasons import Reason
from muster.model.resources import CPU, GPU, MICRO, PODS, Resources, Weights, total
from muster.sim.measures import Gauge, Measured
from muster.sim.measures.division import entitled
from muster.sim.measures.fairness import WINDOW_STEPS
from muster.sim.measures.jobs import Distribution, width_classes
from muster.sim.measures.steps import MOST_STEPS, Series
from muster.sim.scenario.loader import parse
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.sim.summary import Summary
from muster.state.records import Phase

HOUR_S = 3600


def measured(scenario: Scenario | Mapping[str, Any], **given_: Any) -> Measured:
    """A simulation to its end, measured."""
    if not isinstance(scenario, Scenario):
        scenario = parse(yaml.safe_dump(dict(scenario), sort_keys=False))
    simulation = Simulation(scenario, estimates=False)
    gauge = Gauge(simulation, **given_)
    for tick in simulation:
        gauge.add(tick)
    return gauge.result()


# --- known answers ----------------------------------------------------------------------------------------

FOUR_CORES = [{"name": "n", "cpu": 4}]
QUIET = {"overShare": "off"}


def two_queues(*jobs: dict[str, Any], weights: tuple[int, int] = (1, 3), **rest: Any) -> dict[str, Any]:
    """A machine of four cores for A and B."""
    queues = [{"name": name, "weight": weight} for name, weight in zip("AB", weights, strict=True)]
    return world(nodes=FOUR_CORES, jobs=jobs, queues=queues, config=QUIET, **rest)


@pytest.mark.parametrize(
    "scenario, shares, shortfalls",
    [
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", count=4, runtime=10), until=10),
            {"A": (0.25, 0.25), "B": (0.75, 0.75)},
            {"A": 0.0, "B": 0.0},
            id="weights 1 to 3 divide a machine that both want, and the engine gives each its part",
        ),
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), until=10),
            {"A": (1.0, 1.0), "B": (0.0, 0.0)},
            {"A": 0.0, "B": None},
            id="who is alone is entitled to everything, who asks for nothing to nothing",
        ),
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", at=5, count=4, runtime=10), until=10),
            {"A": (0.625, 1.0), "B": (0.375, 0.0)},
            {"A": 0.0, "B": 1.0},
            id="who comes later is entitled to its part from then on, and gets none of it",
        ),
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", at=5, runtime=10), until=10),
            {"A": (0.875, 1.0), "B": (0.125, 0.0)},
            {"A": 0.0, "B": 1.0},
            id="nobody is entitled to more than it asks for",
        ),
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", cpu=8), until=10),
            {"A": (1.0, 1.0), "B": (0.0, 0.0)},
            {"A": 0.0, "B": None},
            id="nobody is entitled to what can never start",
        ),
        pytest.param(
            two_queues(
                job("a", "A", runtime=5),
                job("b", "B", count=3, after=["a"], runtime=5),
                job("c", "A", runtime=10),
                until=10,
            ),
            {"A": (0.375, 0.375), "B": (0.375, 0.375)},
            {"A": 0.0, "B": 0.0},
            id="jobs that come after others ask for nothing until then",
        ),
    ],
)  # fmt: skip
def test_what_queues_were_entitled_to_and_held(scenario, shares, shortfalls):
    fairness = measured(scenario).fairness

    told = {queue.name: (queue.entitled, queue.held) for queue in fairness.queues}
    assert told == {name: pytest.approx(pair) for name, pair in shares.items()}
    assert {queue.name: queue.shortfall for queue in fairness.queues} == pytest.approx(shortfalls)


def test_the_worst_hour_is_one_with_work_waiting_throughout():
    jobs = [job("a", "A", count=4, runtime=3 * HOUR_S), job("b", "B", at=HOUR_S, count=4, runtime=10)]
    fairness = measured(two_queues(*jobs)).fairness

    worst = fairness.queue("B").worst
    assert (worst.shortfall, worst.from_ms) == (1.0, HOUR_S * 1000)
    assert fairness.worst == worst
    assert fairness.queue("B").below_half_ms == 2 * HOUR_S * 1000
    assert fairness.queue("A").worst is None
    # B was entitled to three quarters for two hours, and got none of them.
    assert fairness.queue("B").shortfall == pytest.approx(1, abs=0.01)
    assert fairness.shortfall == pytest.approx(2 * 0.75 / (1 + 2 * 0.25 + 2 * 0.75), abs=0.01)


def test_a_wait_of_less_than_an_hour_is_no_worst_hour():
    jobs = [job("a", "A", count=4, runtime=3500), job("b", "B", at=1, count=4, runtime=10)]
    fairness = measured(two_queues(*jobs)).fairness

    assert fairness.worst is None
    assert fairness.queue("B").below_half_ms == 3_499_000


@pytest.mark.parametrize(
    "scenario, jain",
    [
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", count=4, runtime=10), until=10),
            1.0,
            id="all received the same part",
        ),
        pytest.param(
            two_queues(job("a", "A", count=4, runtime=10), job("b", "B", at=5, count=4), weights=(1, 1), until=10),
            0.5,
            id="one of two received everything while both were there; the time alone does not count",
        ),
        pytest.param(two_queues(job("a", "A", count=4, runtime=10), until=10), 1.0, id="there was only one"),
    ],
)
def test_jains_index(scenario, jain):
    assert measured(scenario).fairness.jain == pytest.approx(jain)


def test_only_gpus_count_where_that_is_asked_for():
    nodes = [{"name": "n", "cpu": 8, "gpu": 2}]
    jobs = [job("a", "A", cpu=8, runtime=10), job("b", "B", cpu=0, gpu=1, runtime=10)]
    scenario = world(nodes=nodes, jobs=jobs, queues=[{"name": "A"}, {"name": "B"}], until=10)

    fairness = measured(scenario, weights=Weights.of({"gpu": 1})).fairness

    assert {queue.name: (queue.entitled, queue.held) for queue in fairness.queues} == {"A": (0, 0), "B": (0.5, 0.5)}


def test_what_is_idle_although_jobs_wait_and_what_is_in_pieces():
    nodes = [{"name": "n", "count": 2, "cpu": 4}]
    jobs = [job("low", "A", count=2, cpu=3, runtime=10), job("small", "A", cpu=2, runtime=10)]
    told = measured(world(nodes=nodes, jobs=jobs, queues=[{"name": "A"}], config=QUIET))

    # For ten seconds a core is idle on each node, while a job of two waits; then that one runs alone.
    assert told.end_ms == 20_000
    assert told.used == {CPU: pytest.approx((6 / 8 + 2 / 8) / 2)}
    assert told.asked == pytest.approx(2 / 8 / 2)
    assert told.unusable == pytest.approx(2 / 8 / 2)


def test_room_that_is_kept_for_a_gang_is_not_in_pieces():
    nodes = [{"name": "n", "count": 2, "cpu": 4}]
    jobs = [job("low", "A", cpu=4, runtime=10), gang("pair", 2, cpu=4, at=1, runtime=10)]
    told = measured(world(nodes=nodes, jobs=jobs, queues=[{"name": "A"}], config=QUIET, until=20))

    assert told.asked == pytest.approx(9 * 4 / 8 / 20)
    assert told.unusable == 0


def test_what_jobs_waited_for_and_how_long():
    jobs = [job("first", "A", cpu=4, runtime=10, expectedRuntime=10), job("then", "A", cpu=4, runtime=5)]
    told = measured(two_queues(*jobs, job("giant", "A", cpu=8), until=20))

    reasons = {it.reason: (it.jobs, it.waited_ms) for it in told.reasons}
    assert reasons == {Reason.RESERVED: (1, 10_000), Reason.NEVER_FITS: (1, 20_000)}
    assert [(told.jobs.ids[stay.row], stay.waited_ms, stay.reason) for stay in told.longest] == [
        ("giant", 20_000, "NEVER_FITS"),
        ("then", 10_000, "RESERVED"),
    ]
    assert "at most 4 on a matching node" in told.longest[0].sentence


def test_waits_and_slowdowns_by_queue_and_width():
    jobs = [job("a", "A", cpu=4, runtime=100), job("b", "B", at=10, cpu=1, runtime=5), job("never", "B", cpu=8)]
    told = measured(two_queues(*jobs))

    waits = {spread.name: spread.wait_s and spread.wait_s.mean for spread in told.by_queue}
    assert waits == {"A": 0, "B": 90}
    assert {spread.name: (spread.jobs, spread.slowdown and spread.slowdown.mean) for spread in told.by_width} == {
        "1": (1, 9.5),  # 95 seconds there, of which it ran 5, which count as 10
        "3–4": (1, 1.0),
        "5–8": (1, None),
    }
    assert told.jobs.phases() == {"queued": 1, "succeeded": 2}


@pytest.mark.parametrize(
    "widths, classes",
    [
        pytest.param([1, 2, 3, 4, 5, 64], {"1": 1, "2": 1, "3–4": 2, "5–8": 1, "33–64": 1}, id="classes double"),
        pytest.param([0, 0, 1], {"none": 2, "1": 1}, id="who asks for none is apart"),
        pytest.param([0.5, 1, 1.5], {"up to 1": 2, "over 1 to 2": 1}, id="parts are said to be parts"),
        pytest.param([], {}, id="nobody"),
    ],
)
def test_classes_of_width(widths, classes):
    milli = np.array([round(1000 * width) for width in widths], np.int64)
    assert {name: int(which.sum()) for name, which in width_classes(milli, 1000)} == classes


def test_percentiles_are_values_that_so_many_do_not_exceed():
    told = Distribution.of(np.arange(1.0, 201.0))
    assert told.percentiles == {50: 100, 90: 180, 95: 190, 99: 198, 100: 200}
    assert (told.count, told.mean) == (200, 100.5)
    assert Distribution.of(np.zeros(0)) is None


# --- dividing, and adding up ------------------------------------------------------------------------------

_AMOUNTS = st.integers(0, 40)


@given(
    st.lists(st.tuples(_AMOUNTS, st.integers(1, 8)), min_size=1, max_size=6),
    st.lists(_AMOUNTS, min_size=1, max_size=4),
)
def test_many_divisions_at_once_are_the_division_of_each(queues, wholes):
    wanted = np.array([[float(demand) for demand, _ in queues]] * len(wholes))
    weights = np.array([float(weight) for _, weight in queues])

    shares = entitled(wanted, weights, np.array(wholes, float))

    for row, whole in zip(shares.tolist(), wholes, strict=True):
        slow = max_min([Fraction(demand) for demand, _ in queues], [weight for _, weight in queues], Fraction(whole))
        assert row == pytest.approx([float(share) for share in slow], abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 100_000_000), st.integers(0, 9)), min_size=1, max_size=40), st.integers(1, 7))
def test_a_series_loses_nothing_however_long_its_steps_become(stretches, at_once):
    stretches = [(lasted, level) for lasted, level in stretches if lasted]
    series, now_ms = Series(1), 0
    for first in range(0, len(stretches), at_once):
        part = stretches[first : first + at_once]
        moments = np.cumsum([now_ms, *(lasted for lasted, _ in part)])
        series.add(np.array([[float(level)] for _, level in part]), moments, np.array([0]))
        now_ms = int(moments[-1])

    means = series.means()[:, 0]
    assert len(means) == -(-now_ms // series.width_ms) <= MOST_STEPS
    ends = np.cumsum([lasted for lasted, _ in stretches])
    for step in range(0, len(means), max(len(means) // 5, 1)):
        begin, end = step * series.width_ms, min((step + 1) * series.width_ms, now_ms)
        inside = sum(
            level * max(min(until, end) - max(until - lasted, begin), 0)
            for (lasted, level), until in zip(stretches, ends.tolist(), strict=True)
        )
        assert means[step] == pytest.approx(inside / (end - begin), abs=1e-9)


# --- all of it once more, slowly --------------------------------------------------------------------------


def max_min(demands: Sequence[Fraction], weights: Sequence[int], whole: Fraction) -> list[Fraction]:
    """Fill everyone at the same rate per weight, until they have enough or nothing is left."""
    shares = [Fraction(0)] * len(demands)
    while whole > 0 and (hungry := [at for at in range(len(demands)) if shares[at] < demands[at]]):
        together = sum(weights[at] for at in hungry)
        rate = min(whole / together, *((demands[at] - shares[at]) / weights[at] for at in hungry))
        for at in hungry:
            shares[at] += rate * weights[at]
        whole -= rate * together
    return shares


@dataclass
class Stretch:
    """What the state says from one moment to the next."""

    from_ms: int
    until_ms: int
    held: list[Fraction]
    due: list[Fraction]
    waits: list[bool]
    whole: Fraction
    amounts: Resources
    capacity: Resources
    asked: int
    waiting: int
    running: int

    @property
    def lasted(self) -> int:
        return self.until_ms - self.from_ms


@dataclass
class Slow:
    """Looks at the whole state after every tick."""

    simulation: Simulation
    names: Sequence[str]
    main: str
    stretches: list[Stretch] = field(default_factory=list)

    def usage(self, resources: Resources) -> Fraction:
        terms = self.simulation.scenario.policy.weights.terms
        return sum((Fraction(resources.get(name) * micro, units * MICRO) for name, micro, units in terms), Fraction(0))

    def look(self, now_ms: int, *, changed: bool) -> None:
        if self.stretches:
            self.stretches[-1].until_ms = now_ms
        if not changed:
            return
        state = self.simulation.state
        snapshot = state.freeze(now_ms)
        capacity = floor_of(snapshot).capacity()
        capacity = Resources({name: amount for name, amount in capacity.items() if name != PODS})
        held, wanted, waits, asked, weights = [], [], [], 0, []
        queues = {it.queue.name: it for it in snapshot.queues}
        runs = list(snapshot.running)
        for name in self.names:
            weights.append(queues[name].queue.weight if name in queues else MICRO)
            mine = [run for run in runs if run.job.queue == name]
            held.append(total(resources_of(run.job.profile, run.tasks) for run in mine))
            line = [job for lane in queues[name].lanes for job in lane.jobs] if name in queues else []
            line += [it.job for it in snapshot.pending if it.job.queue == name]
            able = [job for job in line if never_fits(snapshot.fleet, job.profile) is None]
            demand = total([*(job.profile.most for job in able), *(run.job.profile.most for run in mine)])
            quota = queues[name].queue.quota if name in queues else {}
            wanted.append(demand.capped(quota).lowest(capacity))
            waits.append(bool(able))
            asked += sum(job.profile.least.get(self.main) for job in able)
        whole = self.usage(capacity)
        phases = [record.phase for record in state.jobs.values()]
        self.stretches.append(
            Stretch(
                from_ms=now_ms,
                until_ms=now_ms,
                held=[self.usage(amounts) for amounts in held],
                due=max_min([self.usage(amounts) for amounts in wanted], weights, whole),
                waits=waits,
                whole=whole,
                amounts=total(held),
                capacity=capacity,
                asked=asked,
                waiting=sum(phase in (Phase.QUEUED, Phase.PENDING) for phase in phases),
                running=sum(phase is Phase.RUNNING for phase in phases),
            )
        )

    def shortfall(self, at: int) -> Fraction | None:
        due = sum(it.due[at] * it.lasted for it in self.stretches)
        return sum(max(it.due[at] - it.held[at], 0) * it.lasted for it in self.stretches) / due if due else None

    def jain(self) -> Fraction:
        total_, time = Fraction(0), 0
        for it in self.stretches:
            parts = [held / due for held, due in zip(it.held, it.due, strict=True) if due]
            if len(parts) > 1:
                squares = sum(part * part for part in parts)
                total_ += it.lasted * (sum(parts) ** 2 / (len(parts) * squares) if squares else 1)
                time += it.lasted
        return total_ / time if time else Fraction(1)

    def worst(self, at: int, window_ms: int) -> Fraction | None:
        """The largest shortfall of a window that begins at a whole step and has work waiting throughout."""
        end_ms, found = self.stretches[-1].until_ms, []
        for begin in range(0, end_ms - window_ms + 1, window_ms // WINDOW_STEPS):
            short = due = waited = Fraction(0)
            for it in self.stretches:
                inside = max(min(it.until_ms, begin + window_ms) - max(it.from_ms, begin), 0)
                short += inside * max(it.due[at] - it.held[at], 0)
                due += inside * it.due[at]
                waited += inside * it.waits[at]
            if waited == window_ms and due:
                found.append(short / due)
        return max(found, default=None)

    def below_half(self, at: int) -> int:
        longest = now = 0
        for it in self.stretches:
            now = now + it.lasted if it.waits[at] and 2 * it.held[at] < it.due[at] else 0
            longest = max(longest, now)
        return longest

    def mean(self, values: Sequence[Fraction | int | float]) -> float:
        end_ms = self.stretches[-1].until_ms
        return float(sum(value * it.lasted for value, it in zip(values, self.stretches, strict=True)) / max(end_ms, 1))


WINDOW_MS = 12_000


@a_part(3)
@pytest.mark.parametrize("knobs", [EVERYTHING, WIDTHS, POOLS], ids=["everything", "widths", "pools"])
@given(data=st.data())
def test_measures_are_what_the_state_says_moment_by_moment(knobs: Knobs, data: st.DataObject):
    scenario = data.draw(scenarios(knobs))
    simulation = Simulation(scenario, estimates=False)
    gauge, summary = Gauge(simulation, window_ms=WINDOW_MS), Summary(simulation)
    added = [it.event.node for it in scenario.events if isinstance(it.event, NodeAdded)]
    main = GPU if any(node.allocatable.get(GPU) for node in (*scenario.nodes, *added)) else CPU
    slow = Slow(simulation, sorted({it.name for it in scenario.queues}), main)
    slow.look(0, changed=True)
    for tick in simulation:
        gauge.add(tick)
        summary.add(tick)
        slow.look(tick.moment.now_ms, changed=bool(tick.moment.events))
    told = gauge.result()

    assert told.jobs.queues == tuple(slow.names)
    assert told.main == main
    for at, queue in enumerate(told.fairness.queues):
        worst = slow.worst(at, WINDOW_MS)
        assert queue.shortfall == close(slow.shortfall(at))
        assert (queue.worst and queue.worst.shortfall) == close(worst)
        assert queue.below_half_ms == slow.below_half(at)
        assert queue.waited_ms == sum(it.lasted for it in slow.stretches if it.waits[at])
    due = sum(sum(it.due) * it.lasted for it in slow.stretches)
    short = sum(max(it.due[at] - it.held[at], 0) * it.lasted for it in slow.stretches for at in range(len(slow.names)))
    assert told.fairness.shortfall == close(short / due if due else 0)
    assert told.fairness.jain == close(slow.jain())
    _holds_over_time(told, slow, main)
    _agrees_with_the_summary(told, summary)


def _holds_over_time(told: Measured, slow: Slow, main: str) -> None:
    """Use, waiting and idle amounts, on average and step by step."""
    asked = []
    for it in slow.stretches:
        idle = max(it.capacity.get(main) - it.amounts.get(main), 0)
        asked.append(min(idle, it.asked) / it.capacity.get(main) if it.capacity.get(main) else 0)
    assert told.asked == close(slow.mean(asked))
    for name, part in told.used.items():
        there = slow.mean([it.capacity.get(name) for it in slow.stretches])
        assert part == close(slow.mean([it.amounts.get(name) for it in slow.stretches]) / there if there else 0)
    course, end_ms = told.course, told.end_ms
    if not end_ms:
        return
    lasted = np.minimum(course.step_ms, end_ms - np.array(course.times_ms)) / end_ms
    assert float(lasted @ course.waiting) == close(slow.mean([it.waiting for it in slow.stretches]))
    assert float(lasted @ course.running) == close(slow.mean([it.running for it in slow.stretches]))
    for at in range(len(slow.names)):
        parts = [it.held[at] / it.whole if it.whole else 0 for it in slow.stretches]
        assert float(lasted @ course.held[:, at]) == close(slow.mean(parts))


def _agrees_with_the_summary(told: Measured, summary: Summary) -> None:
    totals = summary.totals()
    jobs = totals["jobs"]
    assert told.jobs.phases() == {
        phase: sum(it["state"] == phase for it in jobs.values()) for phase in {it["state"] for it in jobs.values()}
    }
    mean = told.all_jobs.wait_s and told.all_jobs.wait_s.mean
    assert mean == (
        None if totals["totals"]["meanWait"] is None else pytest.approx(totals["totals"]["meanWait"], abs=1e-5)
    )
    slow = told.all_jobs.slowdown and told.all_jobs.slowdown.mean
    expected = totals["totals"]["meanBoundedSlowdown"]
    assert slow == (None if expected is None else pytest.approx(expected, abs=1e-5))
    for row, name in enumerate(told.jobs.ids):
        assert told.jobs.attempts[row] == jobs[name]["attempts"]
        assert {it.name for it in told.jobs.reasons_of(row)} >= set(jobs[name]["waitedFor"])


def close(value: Fraction | float | None) -> Any:
    return None if value is None else pytest.approx(float(value), rel=1e-9, abs=1e-9)
