"""Where nothing ever leaves, jobs that come together go where they would go one after the other.

That is what lets experiments offer many pods in one turn (evidence/e1_fragmentation.py). Only what is typical, and what
it can use, is as of the beginning of a turn: `fragmentation` looks at that.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.placement import Placement, PlacementRule, Typical
from muster.model.policy import Policy, Preemption
from muster.model.queues import Queue
from muster.model.resources import CPU, GPU, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation

RULES = [rule for rule in PlacementRule if rule is not PlacementRule.FRAGMENTATION]


def a_request(chance: Random) -> Request:
    gpus = chance.choice([0, 1, 1, 1, 2])
    milli = chance.choice([1000, 1000, 600, 400, 250]) if gpus == 1 else 1000
    return Request.of({CPU: chance.choice([1, 2, 5]) * 1000, GPU: gpus * 1000}, gpu_milli=milli)


def places(seed: int, rule: PlacementRule, together: int) -> dict[str, object]:
    """Where each job of a random line runs, if so many come at one moment."""
    chance = Random(seed)
    nodes = [
        Node(name=f"n-{number}", cluster="c", allocatable=Resources.of({CPU: cores * 1000, GPU: gpus * 1000}))
        for number in range(5)
        for cores, gpus in [(chance.choice([4, 8, 16]), chance.choice([0, 1, 2, 4]))]
    ]
    kinds = [a_request(chance) for _ in range(6)]
    typical = tuple(Typical(request=kind, count=chance.randint(1, 9)) for kind in kinds) if rule.knows_typical else ()
    jobs = []
    for number in range(40):
        group = TaskGroup(name="main", min=1, initial=1, max=1, request=chance.choice(kinds))
        job = Job(id=f"j-{number}", queue="q", profile=Profile(groups=(group,)), submit_ms=number // together)
        jobs.append(ScriptJob(job=job))
    policy = Policy(
        turn_ms=1,
        gpu_first=False,
        over_share=None,
        reservations=0,
        preemption=Preemption.OFF,
        elastic_every_ms=None,
        placement=Placement(rule=rule, seed=seed % 100, typical=typical),
    )
    simulation = Simulation(
        Scenario(
            policy=policy,
            clusters=(Cluster(name="c"),),
            nodes=tuple(nodes),
            queues=(Queue(name="q"),),
            jobs=tuple(jobs),
        ),
        estimates=False,
    )
    for _ in simulation:
        pass
    return {run.job.id: run.tasks for run in simulation.state.running.values()}


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.value) for rule in RULES])
@given(seed=st.integers(0, 2**32))
def test_property_who_comes_together_is_placed_as_one_after_the_other(rule: PlacementRule, seed: int) -> None:
    assert places(seed, rule, 1) == places(seed, rule, 7) == places(seed, rule, 40)
