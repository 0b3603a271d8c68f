"""What is true of every plan: steady state, verdicts, victims, fairness, an end (cases.md 7.2-7.9, 7.12)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given
from worlds import EVERYTHING, NEEDS, ONE_RESOURCE, Knobs, scenarios, turns_of

from muster.engine import plan
from muster.model.jobs import Running, resources_of
from muster.model.plan import Evict, Rule, Start, Started, Victim, Waiting, verdicts
from muster.model.policy import Preemption
from muster.model.reasons import Reason
from muster.model.resources import CPU
from muster.sim.checker import check
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation

PREEMPTING = replace(EVERYTHING, preemption=(Preemption.ON,))


# --- steady state -------------------------------------------------------------------------------


@given(scenarios())
def test_property_planned_again_at_the_same_moment_there_is_nothing_to_do(scenario: Scenario) -> None:
    """Steady state (cases.md 7.2). Only a limit on starts or evictions per turn leaves something for the next one."""
    simulation = Simulation(scenario, estimates=False)
    for tick in simulation:
        waiting = [it for it in tick.moment.plan.verdicts.values() if isinstance(it, Waiting)]
        if not any(it.reason is Reason.RATE_LIMIT for it in waiting):
            assert plan(simulation.state.freeze(tick.moment.now_ms)).actions == ()


@given(scenarios(Knobs(nodes=6, queues=4, entries=15)))
def test_property_a_plan_has_few_actions_per_job(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        jobs = len(verdicts(snapshot, made))
        assert len(made.actions) <= 3 * jobs


@given(scenarios(NEEDS))
def test_property_a_job_runs_only_where_what_it_needs_is_honoured(scenario: Scenario) -> None:
    honours = {cluster.name: cluster.honours for cluster in scenario.clusters}
    for snapshot, made in turns_of(scenario):
        check(snapshot, made)
        needs = {job.id: job.profile.needs for state in snapshot.queues for job in state.jobs()}
        needs |= {entry.job.id: entry.job.profile.needs for entry in snapshot.pending}
        for action in made.actions:
            if isinstance(action, Start):
                assert set(needs[action.job]) <= set(honours[action.cluster])


# --- verdicts -----------------------------------------------------------------------------------


@given(scenarios())
def test_property_every_job_has_exactly_one_verdict(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        waiting = [job for state in snapshot.queues for job in state.jobs()]
        waiting += [entry.job for entry in (*snapshot.pending, *snapshot.held)]
        everyone = {job.id for job in waiting} | {run.job.id for run in snapshot.running}
        given_ = verdicts(snapshot, made)
        assert set(given_) == everyone
        started = {action.job for action in made.actions if isinstance(action, Start)}
        evicted = {action.job for action in made.actions if isinstance(action, Evict)}
        assert started == {name for name, verdict in given_.items() if isinstance(verdict, Started)}
        assert evicted == {name for name, verdict in given_.items() if isinstance(verdict, Victim)}
        for verdict in given_.values():
            if isinstance(verdict, Waiting):
                assert verdict.explain()


@given(scenarios(PREEMPTING))
def test_property_every_victim_names_a_preemptor_that_starts(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        started = {action.job: action for action in made.actions if isinstance(action, Start)}
        given_ = verdicts(snapshot, made)
        for action in made.actions:
            if isinstance(action, Evict):
                assert action.by in started
                assert started[action.by].by_preemption
                assert isinstance(given_[action.job], Victim)


@given(scenarios())
def test_property_reservations_are_on_nodes_that_take_the_job(scenario: Scenario) -> None:
    """How many there may be the checker knows, and who yields to whom (4.5)."""
    for snapshot, made in turns_of(scenario):
        jobs = {job.id: job for state in snapshot.queues for job in state.jobs()}
        jobs |= {entry.job.id: entry.job for entry in snapshot.pending}
        reserved = {
            name: verdict.facts
            for name, verdict in made.verdicts.items()
            if isinstance(verdict, Waiting) and verdict.reason is Reason.RESERVED
        }
        for name, facts in reserved.items():
            for node_name in facts["nodes"]:
                node = snapshot.fleet.nodes[node_name]
                assert snapshot.fleet.takes_tasks(node)
                assert any(
                    group.constraint.refuses(node.name, node.labels, node.taints) is None
                    for group in jobs[name].profile.groups
                )


# --- limits -------------------------------------------------------------------------------------


@given(scenarios())
def test_property_no_start_exceeds_a_quota(scenario: Scenario) -> None:
    """Evictions first, then start by start (cases.md 7.3)."""
    for snapshot, made in turns_of(scenario):
        holds = {state.queue.name: state.started for state in snapshot.queues}
        quotas = {state.queue.name: state.queue.quota for state in snapshot.queues}
        runs = {run.job.id: run for run in snapshot.running}
        profiles = {job.id: job.profile for state in snapshot.queues for job in state.jobs()}
        profiles |= {entry.job.id: entry.job.profile for entry in snapshot.pending}
        for action in made.actions:
            if isinstance(action, Evict):
                run = runs[action.job]
                freed = resources_of(run.job.profile, action.tasks)
                holds[run.job.queue] = holds[run.job.queue] - freed
            elif isinstance(action, Start):
                asked = resources_of(profiles[action.job], action.tasks)
                holds[action.queue] = holds[action.queue] + asked
                for name, most in quotas[action.queue].items():
                    assert not asked[name] or holds[action.queue][name] <= most


@given(scenarios())
def test_property_nothing_starts_from_a_cordoned_queue_or_on_a_node_that_takes_nothing(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        cordoned = {state.queue.name for state in snapshot.queues if state.queue.cordoned}
        profiles = {job.id: job.profile for state in snapshot.queues for job in state.jobs()}
        profiles |= {entry.job.id: entry.job.profile for entry in snapshot.pending}
        for action in made.actions:
            if isinstance(action, Start):
                assert action.queue not in cordoned
                for task in action.tasks:
                    node = snapshot.fleet.nodes[task.node]
                    constraint = profiles[action.job].group(task.group).constraint
                    assert node.cluster == action.cluster
                    assert snapshot.fleet.takes_tasks(node)
                    assert constraint.refuses(node.name, node.labels, node.taints) is None


# --- fairness -----------------------------------------------------------------------------------


def _within_lifetime(run: Running, now_ms: int) -> bool:
    lifetime_ms = run.job.lifetime_ms
    return lifetime_ms is None or now_ms < run.started_ms + lifetime_ms


@given(scenarios(PREEMPTING))
def test_property_no_job_is_evicted_whole_for_fairness_within_its_lifetime(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        runs = {run.job.id: run for run in snapshot.running}
        for action in made.actions:
            if isinstance(action, Evict):
                run = runs[action.job]
                assert snapshot.now_ms >= run.protected_until_ms
                if action.rule is Rule.CLASS:
                    continue
                if action.whole:
                    assert not _within_lifetime(run, snapshot.now_ms)
                else:
                    assert set(action.tasks) <= set(run.surplus())


@given(scenarios(replace(ONE_RESOURCE, preemption=(Preemption.ON,), entries=12)))
def test_property_no_fairness_eviction_raises_unfairness(scenario: Scenario) -> None:
    """The largest share per weight among queues with waiting work does not grow (cases.md 7.6), with cpu alone."""
    for snapshot, made in turns_of(scenario):
        weights = {state.queue.name: state.queue.weight for state in snapshot.queues}
        holds = {state.queue.name: state.started[CPU] for state in snapshot.queues}
        runs = {run.job.id: run for run in snapshot.running}
        waiting = {job.id: job for state in snapshot.queues for job in state.jobs()}
        waiting |= {entry.job.id: entry.job for entry in snapshot.pending}
        for action in made.actions:
            if not isinstance(action, Start):
                continue
            evictions = [it for it in made.actions if isinstance(it, Evict) and it.by == action.job]
            victims = {runs[it.job].job.queue for it in evictions}
            blocked = {job.queue for job in waiting.values()} | victims
            before = max((Fraction(holds[name], weights[name]) for name in blocked), default=Fraction(0))
            job = waiting.pop(action.job)
            holds[job.queue] += resources_of(job.profile, action.tasks)[CPU]
            for it in evictions:
                holds[runs[it.job].job.queue] -= resources_of(runs[it.job].job.profile, it.tasks)[CPU]
            blocked = {job.queue for job in waiting.values()} | victims
            after = max((Fraction(holds[name], weights[name]) for name in blocked), default=Fraction(0))
            if any(it.rule is Rule.FAIR_SHARE for it in evictions):
                assert after <= before


# --- everything else ----------------------------------------------------------------------------


@given(scenarios())
def test_property_an_independent_checker_finds_no_fault(scenario: Scenario) -> None:
    for snapshot, made in turns_of(scenario):
        assert check(snapshot, made) == []
