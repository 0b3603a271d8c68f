"""Reservations, backfilling and estimates, by simulation (design.md 4.5)."""

from __future__ import annotations

from dataclasses import replace

from effort import a_part
from hypothesis import given
from worlds import CALM, EVERYTHING, EXACT, a_job, a_world, scenarios

from muster.model import events as ev
from muster.model.plan import Plan, Start, Waiting
from muster.model.policy import EVERYONE
from muster.model.reasons import Reason
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


class Diary:
    """Who was promised which start, and who started when."""

    def __init__(self, scenario: Scenario) -> None:
        self.promises: dict[str, int] = {}
        self.starts: dict[str, int] = {}
        simulation = Simulation(scenario, estimates=False)
        simulation.run.watch = self.note
        for _ in simulation:
            pass

    def note(self, snapshot: Snapshot, made: Plan) -> None:
        """Write down one turn."""
        for name, verdict in made.verdicts.items():
            if isinstance(verdict, Waiting) and verdict.reason is Reason.RESERVED and not verdict.facts["assumed"]:
                self.promises.setdefault(name, verdict.estimate_ms or 0)
        for action in made.actions:
            if isinstance(action, Start):
                self.starts.setdefault(action.job, snapshot.now_ms)


PLAIN = replace(EXACT, ageing=False, classes=False, gpus=False)  # nobody may take nodes that others were promised


@given(scenarios(PLAIN))
def test_property_no_job_starts_later_than_it_was_first_promised(scenario: Scenario) -> None:
    diary = Diary(scenario)
    for job, promised_ms in diary.promises.items():
        assert diary.starts[job] <= promised_ms, job


@given(scenarios(replace(PLAIN, reservations=(1,))))
def test_property_backfilling_does_not_delay_the_first_blocked_job(scenario: Scenario) -> None:
    with_it = Diary(scenario)
    without = Diary(replace(scenario, policy=replace(scenario.policy, backfill=False)))
    for job in list(with_it.promises)[:1]:
        assert with_it.starts[job] <= without.starts[job], job


@given(scenarios(replace(PLAIN, reservations=(EVERYONE,), over_share=False)))
def test_property_when_everyone_may_reserve_backfilling_delays_nobody_who_was_promised_a_start(
    scenario: Scenario,
) -> None:
    diary = Diary(scenario)
    for job, promised_ms in diary.promises.items():
        assert diary.starts[job] <= promised_ms, job


@a_part(2)
@given(scenarios(CALM))
def test_property_with_exact_run_times_every_estimate_comes_true(scenario: Scenario) -> None:
    simulation = Simulation(scenario)
    estimates: list[tuple[str, int, int]] = []
    starts: dict[str, list[int]] = {}
    for tick in simulation:
        now_ms = tick.moment.now_ms
        for event in tick.moment.events:
            if isinstance(event, ev.JobStarted):
                starts.setdefault(event.job, []).append(now_ms)
        told = {notice.job: notice.estimate for notice in tick.notices if notice.estimate is not None}
        for job, estimate in (told | simulation.forecast()).items():
            if not estimate.is_assumed:
                estimates.append((job, now_ms, estimate.start_ms))
    for job, told_ms, start_ms in estimates:
        assert start_ms == min(moment for moment in starts.get(job, [-1]) if moment > told_ms or moment < 0), job


@a_part(3)
@given(scenarios(replace(EVERYTHING, turns_ms=(1000,))))
def test_property_estimates_lie_ahead(scenario: Scenario) -> None:
    for tick in Simulation(scenario):
        for notice in tick.notices:
            assert notice.estimate is None or notice.estimate.start_ms > tick.moment.now_ms


def test_a_newcomer_gets_the_next_freed_slot_though_another_queue_has_100000_jobs_queued() -> None:
    world = a_world(over_share=None).with_node(cpu=4).with_queues("a", "b")
    world.with_jobs(*(a_job("a").cpu(1).lifetime().runs(minutes=1 + n % 4) for n in range(100_000)))
    assert world.turn().placed_by_queue() == {"a": 4}
    world.at(seconds=30).with_jobs(a_job("b").cpu(1).lifetime().named("newcomer"))
    assert world.turn().placed_by_queue() == {"b": 1}  # by preemption: `a` holds more than its share

    patient = a_world(over_share=None).with_node(cpu=4).with_queues("a", "b")
    patient.with_jobs(*(a_job("a").cpu(1).lifetime(hours=1).runs(minutes=1 + n % 4) for n in range(100_000)))
    assert patient.turn().placed_by_queue() == {"a": 4}
    patient.at(seconds=30).with_jobs(a_job("b").cpu(1).lifetime().named("newcomer"))
    assert patient.turn().placed_by_queue() == {}
    assert patient.at(minutes=1).turn().placed_by_queue() == {"a": 1}  # it was promised that slot before
    assert patient.at(minutes=2).turn().placed_by_queue()["b"] == 1
