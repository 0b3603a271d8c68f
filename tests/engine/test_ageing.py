"""What ageing started gets done: it is safe for as long as it had waited (design.md 4.5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from worlds import World, a_job, a_world, ms

from muster.model import events as ev

HOUR_MS = ms(hours=1)


def happens(world: World, until_ms: int) -> Iterator[tuple[int, ev.Event]]:
    """Live on until that moment: what happens, and when."""
    moment_ms: int | None = world.now_ms
    while moment_ms is not None and moment_ms < until_ms:
        yield from ((moment_ms, event) for event in world.run.step(moment_ms).events)
        moment_ms = world.run.next_moment_ms()
    world.now_ms = until_ms


def stream(hours: float, runs_minutes: float, load: float, **fields: int) -> World:
    """One node, and a steady stream of jobs of class 9 that fill it. Ageing after an hour."""
    world = a_world(over_share=None, aging_after_ms=HOUR_MS).with_node(cpu=1).with_queues("x")
    gap_ms = round(ms(minutes=runs_minutes) / load)
    for number, at_ms in enumerate(range(0, ms(hours=hours), gap_ms)):
        job = a_job("x").named(f"high-{number}").cpu(1).of(priority_class=9).runs(minutes=runs_minutes)
        entry = job.built(number, at_ms)
        world.runtimes[entry.job.id] = entry.runtime_ms
        world.run.expect(at_ms, ev.JobSubmitted(job=entry.job))
    return world


@pytest.mark.parametrize(
    "load, runs_minutes, hours",
    [
        pytest.param(0.9, 10, 4, id="below capacity, done within the first attempt"),
        pytest.param(1.5, 10, 4, id="above capacity too: nobody is passed for ever"),
        pytest.param(1.5, 90, 8, id="one that runs for longer than it had waited has twice as long the next time"),
    ],
)
def test_an_aged_job_gets_done_beside_a_stream_of_a_higher_class(load: float, runs_minutes: float, hours: int) -> None:
    world = stream(hours + 2, 20, load)
    world.with_jobs(a_job("x").named("old").cpu(1).lifetime().runs(minutes=runs_minutes))

    told = [(at_ms, event) for at_ms, event in happens(world, ms(hours=hours)) if getattr(event, "job", "") == "old"]

    assert isinstance(told[-1][1], ev.JobSucceeded), told
    starts = [at_ms for at_ms, event in told if isinstance(event, ev.JobStarted)]
    assert len(starts) <= 3, starts


def test_what_ageing_started_is_safe_for_as_long_as_it_had_waited() -> None:
    world = stream(10, 20, 1.5)
    world.with_jobs(a_job("x").named("old").cpu(1).lifetime().runs(hours=9))

    told = [(at_ms, event) for at_ms, event in happens(world, ms(hours=8)) if getattr(event, "job", "") == "old"]

    start_ms, started = next(it for it in told if isinstance(it[1], ev.JobStarted) and it[0] >= HOUR_MS)
    gone_ms = next(at_ms for at_ms, event in told if isinstance(event, ev.JobPreempted) and at_ms > start_ms)
    assert isinstance(started, ev.JobStarted)
    assert started.protected_until_ms == 2 * start_ms
    assert gone_ms >= 2 * start_ms
