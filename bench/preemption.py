"""How long turns take that evict for fairness: a new queue comes to a full world and asks for its share."""

from __future__ import annotations

from dataclasses import replace
from time import process_time

from bench.checking import hold_to_rules
from bench.measuring import MEASURE, below, median, ms, table, tell
from bench.turns import FIRST_MS, SECOND_MS, TURNS, Turn, carried_out, made_world, settle, timed_turn, warm_up
from bench.worlds import Size, freeze_garbage, jobs_of, scaled
from muster.model.events import JobSubmitted, QueueSet
from muster.model.queues import Queue
from muster.state.run import Run

LATER_MS = 15 * 60 * SECOND_MS  # by then whoever has a lifetime has outlived it
NEWCOMER = "newcomer"
NEW_JOBS = 20_000
BAR_MS = 200
MOST_S = 240  # of CPU in timed turns: then no further one is begun


def preemption() -> str:
    """A full world, a queue with 20,000 jobs, and the turns after it came."""
    size, new = scaled(Size()), scaled(Size(jobs=NEW_JOBS)).jobs
    warm_up()
    _turns(_with_newcomer(Size(nodes=1000, jobs=30_000), NEW_JOBS))  # kernels that only take from others
    run = _with_newcomer(size, new)
    turns = _turns(run)
    evicting = [turn for turn in turns if turn.evictions] or turns  # the others would flatter
    checked = hold_to_rules(turns[0].snapshot, turns[0].plan, "The first turn")
    return "\n".join(
        [
            f"{size}, filled. 15 minutes later a queue with {new:,} jobs arrives; these are the turns after that, a",
            f"second apart. At most {run.state.policy.evictions_per_turn:,} evictions a turn. {MEASURE}",
            "",
            *table(
                ("turn", "freeze ms", "plan ms", "actions ms", "evictions", "starts"),
                [
                    (
                        number,
                        ms(turn.freeze_s),
                        ms(turn.plan_s),
                        ms(turn.actions_s),
                        f"{turn.evictions:,}",
                        f"{turn.starts:,}",
                    )
                    for number, turn in enumerate(turns, 1)
                ],
            ),
            "",
            below("The first turn, actions made", BAR_MS, 1000 * (turns[0].plan_s + turns[0].actions_s), " ms"),
            below(
                f"The median of the {len(evicting)} turns that evicted, actions made",
                BAR_MS,
                1000 * median(turn.plan_s + turn.actions_s for turn in evicting),
                " ms",
            ),
            below(
                f"The slowest of {len(turns)}, actions made",
                BAR_MS,
                1000 * max(turn.plan_s + turn.actions_s for turn in turns),
                " ms",
            ),
            "",
            checked,
        ]
    )


def _with_newcomer(size: Size, new: int) -> Run:
    """A full world to which a queue with so many jobs came."""
    run = carried_out(made_world(size))
    settle(run, FIRST_MS + LATER_MS)
    _arrive(run, replace(size, jobs=new))
    freeze_garbage()
    return run


def _arrive(run: Run, size: Size) -> None:
    now_ms = run.state.now_ms
    run.state.apply(QueueSet(queue=Queue(name=NEWCOMER)), now_ms)
    for job in jobs_of(size, seed=2, prefix="new", queue=NEWCOMER, since_ms=now_ms):
        run.state.apply(JobSubmitted(job=job), now_ms)
    tell(f"{size.jobs:,} jobs of a new queue came")


def _turns(run: Run) -> list[Turn]:
    turns: list[Turn] = []
    start = process_time()
    while len(turns) < TURNS and process_time() - start < MOST_S:
        turns.append(timed_turn(run, run.state.now_ms + SECOND_MS, keeps=not turns))
    return turns
