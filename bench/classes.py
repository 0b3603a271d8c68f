"""How long turns take that evict for class: heads of a higher class come to a full world of lower ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from unittest import mock

from bench.checking import hold_to_rules
from bench.measuring import MEASURE, below, median, ms, table, tell, timed
from bench.turns import FIRST_MS, SECOND_MS, Turn, carried_out, made_world, settle, timed_turn, warm_up
from bench.worlds import Size, freeze_garbage, scaled
from muster.engine.finder import Finder
from muster.engine.taking import Taken
from muster.model.events import JobSubmitted, QueueSet
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Request
from muster.model.queues import Queue
from muster.state.run import Run

LATER_MS = 60 * SECOND_MS
URGENT = "urgent"
WIDTH = 64
GANGS = 5  # turns with one gang each
SINGLES = 1000
GANG_BAR_MS = 50


def class_preemption() -> str:
    """A full world; turn by turn a gang of a higher class comes, then a thousand single tasks at once."""
    size = scaled(Size())
    warm_up()
    run = carried_out(made_world(size))
    settle(run, FIRST_MS + LATER_MS)
    tasks = sum(len(it.tasks) for it in run.state.running.values())
    run.state.apply(QueueSet(queue=Queue(name=URGENT)), run.state.now_ms)
    freeze_garbage()
    _turn_with(run, [_job("first", WIDTH)])  # whose search is not counted: it may have to be compiled
    before = timed_turn(run, run.state.now_ms + SECOND_MS, keeps=False)
    searches = list[float]()
    with mock.patch.object(Finder, "in_place_of_lower", _timing(Finder.in_place_of_lower, searches)):
        gangs = [_turn_with(run, [_job(f"gang-{number}", WIDTH)]) for number in range(GANGS)]
    many = _turn_with(run, [_job(f"single-{number}", 1) for number in range(SINGLES)])
    turns = [("nothing new", before), *((f"a gang of {WIDTH}", turn) for turn in gangs), (f"{SINGLES:,} tasks", many)]
    return "\n".join(
        [
            f"{size}, filled: {tasks:,} tasks of class 0 run. A second apart come {GANGS} gangs of {WIDTH}",
            f"tasks of class 5, then {SINGLES:,} single tasks; these are the turns they come in. {MEASURE}",
            "",
            *table(
                ("what comes", "freeze ms", "plan ms", "actions ms", "evictions", "starts"),
                [
                    (what, ms(it.freeze_s), ms(it.plan_s), ms(it.actions_s), f"{it.evictions:,}", f"{it.starts:,}")
                    for what, it in turns
                ],
            ),
            "",
            below(
                f"The search for a gang of {WIDTH}, the median of {len(searches)}; some list all tasks by node first",
                GANG_BAR_MS,
                1000 * median(searches),
                " ms",
            ),
            below("The slowest of them", GANG_BAR_MS, 1000 * max(searches), " ms"),
            "",
            hold_to_rules(gangs[0].snapshot, gangs[0].plan, "The first turn with a gang"),
        ]
    )


def _timing(search: Callable[..., Taken | None], found_s: list[float]) -> Callable[..., Taken | None]:
    """The search; if it finds anyone, it is written down how long that took."""

    def timing(*args: object, **kwargs: object) -> Taken | None:
        taken, search_s = timed(lambda: search(*args, **kwargs))
        if taken is not None:
            found_s.append(search_s)
        return taken

    return timing


def _turn_with(run: Run, jobs: Iterable[Job]) -> Turn:
    now_ms = run.state.now_ms + SECOND_MS
    for job in jobs:
        run.state.apply(JobSubmitted(job=replace(job, submit_ms=now_ms)), now_ms)
    turn = timed_turn(run, now_ms, keeps=True)
    tell(f"{turn.evictions:,} evictions for {turn.starts:,} starts in {1000 * turn.plan_s:.1f} ms")
    return turn


def _job(name: str, width: int) -> Job:
    request = Request.of({"cpu": 8000, "memory": 16 << 30})
    group = TaskGroup(name="worker", min=width, initial=width, max=width, request=request)
    profile = Profile(groups=(group,))
    return Job(id=name, queue=URGENT, profile=profile, priority_class=5, lifetime_ms=600 * SECOND_MS)
