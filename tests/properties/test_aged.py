"""Whatever comes in higher classes, a job that has waited for twice `agingAfter` gets done (design.md 4.5)."""

from __future__ import annotations

from random import Random

from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from worlds import World, a_job, a_world, ms

from muster.model import events as ev

AGEING_MS = ms(hours=1)
LONGEST_MIN = 40  # of anyone in a higher class
RUNS_MIN = 55  # at most, of the job that waits: less than it has waited by then


def world_of(chance: Random, load: float) -> World:
    """A few nodes, jobs of higher classes that come at such a load for six hours, and one of the lowest class."""
    nodes, cores = chance.randint(1, 3), chance.randint(1, 4)
    world = a_world(over_share=None, aging_after_ms=AGEING_MS)
    world.with_node(count=nodes, cpu=cores).with_queues("x", "y")
    at_ms, number = 0.0, 0
    while at_ms < ms(hours=6):
        minutes, cpu = chance.randint(5, LONGEST_MIN), chance.randint(1, cores)
        job = a_job(chance.choice("xy")).named(f"high-{number}").cpu(cpu).of(priority_class=chance.choice([1, 9]))
        job = job.runs(minutes=minutes)
        if chance.random() < 0.5:
            job = job.expects(minutes=minutes)
        entry = job.built(number, round(at_ms))
        world.runtimes[entry.job.id] = entry.runtime_ms
        world.run.expect(round(at_ms), ev.JobSubmitted(job=entry.job))
        at_ms += ms(minutes=minutes) * cpu / (nodes * cores) / load
        number += 1
    tasks = chance.randint(1, nodes)
    old = a_job("x").named("old").cpu(chance.randint(1, cores)).tasks(tasks).runs(minutes=chance.randint(5, RUNS_MIN))
    return world.with_jobs(old.lifetime())


@a_part(4)
@given(seed=st.integers(0, 2**32), load=st.sampled_from([0.3, 0.6, 0.9, 1.2, 2.0]))
def test_property_an_aged_job_gets_done(seed: int, load: float) -> None:
    world = world_of(Random(seed), load)
    # It yields to nobody from then on, waits for those who run, and runs itself.
    by_ms = 2 * AGEING_MS + ms(minutes=LONGEST_MIN + RUNS_MIN + 5)

    told, moment_ms = [], world.now_ms
    while moment_ms is not None and moment_ms < by_ms:
        events = world.run.step(moment_ms).events
        told += [(moment_ms, event) for event in events if getattr(event, "job", "") == "old"]
        moment_ms = world.run.next_moment_ms()

    assert any(isinstance(event, ev.JobSucceeded) for _, event in told), told
