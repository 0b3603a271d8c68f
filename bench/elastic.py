"""How long turns take that change widths: elastic jobs grow, even out, rest, grow again, and shrink for others."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bench.checking import hold_to_all_rules
from bench.measuring import MEASURE, below, median, ms, table, tell
from bench.turns import SECOND_MS, Turn, timed_turn, warm_up
from bench.worlds import GIB, LARGE, SCALE, freeze_garbage
from muster.model.events import ClusterSet, JobSubmitted, JobSucceeded, NodeAdded, QueueSet
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Profile, TaskGroup
from muster.model.nodes import Node, Request
from muster.model.plan import Resize
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.state.run import Run
from muster.state.state import State

NODES, JOBS, QUEUES = 10_000, 5_000, 20
LEVELS = (10, 100, 1000, 1000, 1000, 10_000)
ENDING, COMING = 50, 100  # jobs before a turn
BAR_MS = 200
TURNS = 3
WINDOW_MS = 300 * SECOND_MS

Change = Callable[[Run, int], None]


def elastic() -> str:
    """A full day of widths in a few turns."""
    warm_up()
    _warm_up()
    nodes, jobs = max(int(NODES * SCALE), 10), max(int(JOBS * SCALE), 10)
    run = Run(_world(nodes, jobs), lambda _: None)
    run.step(SECOND_MS)
    tell(f"{len(run.state.running):,} jobs started")
    freeze_garbage()
    rng, rows, checked = Random(1), [], []
    for name, change in (
        ("all grow, from initial to a full fleet", _nothing),
        ("all within their windows", _nothing),
        ("the most served give to the least served", _nothing),
        (f"{ENDING} jobs ended, others grow", _end(rng, ENDING)),
        (f"{COMING} jobs came, others shrink", _come(rng, COMING)),
    ):
        after_ms = SECOND_MS if len(rows) == 1 else WINDOW_MS + 5 * SECOND_MS
        turns = [_turn(run, change, after_ms) for _ in range(TURNS if rows else 1)]
        rows.append((name, turns))
        checked.append(hold_to_all_rules(turns[-1].snapshot, turns[-1].plan, f"The last turn of: {name}"))
    return "\n".join(
        [
            f"{jobs:,} elastic jobs of {QUEUES} queues on {nodes:,} nodes of 32 cores / 128 GiB. {MEASURE}",
            "",
            *table(
                ("turn", "plan ms: median", "slowest", "actions ms", "jobs resized", "tasks", "jobs started"),
                [_row(name, turns) for name, turns in rows],
            ),
            "",
            *(
                below(f"{name} (median, actions made)", BAR_MS, 1000 * median(_whole_s(it) for it in turns), " ms")
                for name, turns in rows
            ),
            "",
            *checked,
        ]
    )


def _warm_up() -> None:
    """Every kind of turn once on a small world, so that kernels are compiled and loaded."""
    run, rng = Run(_world(1000, 500), lambda _: None), Random(2)
    run.step(SECOND_MS)
    for change in (_nothing, _nothing, _end(rng, 5), _come(rng, 10)):
        _turn(run, change, WINDOW_MS + 5 * SECOND_MS)


def _world(nodes: int, jobs: int) -> State:
    """Elastic jobs that ask for more than there is at their max, and for less than half of it at first."""
    rng, state = Random(1), State(Policy(over_share=None))
    state.apply(ClusterSet(cluster=Cluster(name="east")), 0)
    for index in range(nodes):
        state.apply(NodeAdded(node=Node(name=f"n-{index}", cluster="east", allocatable=LARGE)), 0)
    for number in range(QUEUES):
        state.apply(QueueSet(queue=Queue(name=f"q-{number}")), 0)
    for index in range(jobs):
        least = rng.choice((2, 4, 8))
        job = Job(
            id=f"job-{index}",
            queue=f"q-{rng.randrange(QUEUES)}",
            profile=_profile(rng, least, 2 * least, 16 * least),
            level=rng.choice(LEVELS),
            lifetime_ms=0,
        )
        state.apply(JobSubmitted(job=job), 0)
    freeze_garbage()
    return state


def _profile(rng: Random, least: int, initial: int, most: int) -> Profile:
    cores = rng.choice((1, 2, 2, 4))
    request = Request.of({"cpu": cores * 1000, "memory": cores * rng.choice((2, 3, 4)) * GIB})
    return Profile(groups=(TaskGroup(name="worker", min=least, initial=initial, max=most, request=request),))


# -- what happens before a turn ----------------------------------------------------------------------


def _nothing(_run: Run, _now_ms: int) -> None:
    pass


def _end(rng: Random, many: int) -> Change:
    def end(run: Run, now_ms: int) -> None:
        for job in rng.sample(sorted(run.state.running), min(many, len(run.state.running))):
            run.state.apply(JobSucceeded(job=job, attempt=run.state.running[job].attempt), now_ms)

    return end


def _come(rng: Random, many: int) -> Change:
    def come(run: Run, now_ms: int) -> None:
        for index in range(many):
            profile = _profile(rng, 4, 4, 4)
            job = Job(id=f"new-{now_ms}-{index}", queue=f"q-{index % QUEUES}", profile=profile, submit_ms=now_ms)
            run.state.apply(JobSubmitted(job=job), now_ms)

    return come


def _turn(run: Run, change: Change, after_ms: int) -> Turn:
    """A turn so much later; when every window has passed, everybody may change."""
    now_ms = run.state.now_ms + after_ms
    change(run, now_ms)
    turn = timed_turn(run, now_ms, keeps=True)
    tell(f"{sum(isinstance(action, Resize) for action in turn.plan.actions):,} jobs resized")
    return turn


def _whole_s(turn: Turn) -> float:
    return turn.plan_s + turn.actions_s


def _row(name: str, turns: list[Turn]) -> tuple[str, ...]:
    resizes = [[action for action in turn.plan.actions if isinstance(action, Resize)] for turn in turns]
    tasks = [sum(len(it.added) + len(it.removed) for it in some) for some in resizes]
    return (
        name,
        ms(median(turn.plan_s for turn in turns)),
        ms(max(turn.plan_s for turn in turns)),
        ms(median(turn.actions_s for turn in turns)),
        f"{min(map(len, resizes)):,} to {max(map(len, resizes)):,}",
        f"{min(tasks):,} to {max(tasks):,}",
        f"{min(turn.starts for turn in turns):,} to {max(turn.starts for turn in turns):,}",
    )
