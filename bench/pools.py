"""Eight pools: how fast a million cores are filled when one pool is lent, and what a second thread brings."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter

from bench.bare import bare_fill
from bench.calibration import compiled_loop
from bench.checking import hold_to_rules
from bench.measuring import MEASURE, judged, ms, table, tell
from bench.turns import FILL_HEADINGS, FIRST_MS, fill_bars, fill_row, filled, made_world, warm_up
from bench.worlds import Kind, Size, scaled
from muster.engine import plan
from muster.model.plan import Start
from muster.model.snapshot import Snapshot

POOLS = 8
LENT = Kind(pools=POOLS, lent=1)
FILL_BAR, THREADS_BAR = 0.2, 1.15  # of the bare kernel's speed; of the ratio of two compiled loops
TRIES = 15  # of each, one after the other: what else the machine does hits all of them alike


def pools() -> str:
    """Fill a million cores in pools, with borrowing; then the same without, in one thread and in two."""
    size = scaled(Size())
    warm_up(LENT)
    filling = filled(made_world(size, LENT), decide=partial(plan, threads=1))
    bare = bare_fill(filling.snapshot, len(filling.plan_s))
    starts = [action for action in filling.plan.actions if isinstance(action, Start)]
    borrowed = sum(filling.snapshot.fleet.pool_of(it.tasks[0].node) == f"pool-{POOLS - 1}" for it in starts)
    checked = hold_to_rules(filling.snapshot, filling.plan, "Filling")
    snapshot = made_world(size, Kind(pools=POOLS)).freeze(FIRST_MS)
    rows, ratios = in_threads(snapshot)
    limit = THREADS_BAR * ratios[0]
    return "\n".join(
        [
            f"{size}; {POOLS} pools, each queue has one of seven for its own, the last is lent. {MEASURE}",
            "",
            *table(FILL_HEADINGS, [fill_row("filling from empty", filling)]),
            "",
            f"{len(starts):,} jobs started, {borrowed:,} of them on borrowed nodes.",
            "",
            *fill_bars(filling, bare, FILL_BAR),
            "",
            checked,
            "",
            f"In two threads, with jobs for every pool (the clock on the wall; the best of {TRIES}):",
            "",
            *table(("what", "one thread ms", "two threads ms", "ratio"), rows),
            "",
            f"- Pools in two threads: bar: at most {THREADS_BAR} x the ratio of compiled loops, {limit:.2f}; "
            f"measured {ratios[1]:.2f}: {judged(is_met=ratios[1] <= limit)}.",
        ]
    )


def in_threads(snapshot: Snapshot) -> tuple[list[tuple[str, ...]], list[float]]:
    """Two compiled loops, and all pools, in one thread and in two."""
    loop, rows, ratios = compiled_loop(), list[tuple[str, ...]](), list[float]()
    works: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "two compiled loops": (lambda: (loop(), loop()), lambda: _both(loop)),
        f"{POOLS} pools": (partial(plan, snapshot, threads=1), partial(plan, snapshot, threads=2)),
    }
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in works}
    for _ in range(TRIES):
        for name, ways in works.items():
            for way, seconds in zip(ways, took[name], strict=True):
                seconds.append(_on_the_wall(way))
    for name, both in took.items():
        one, two = map(min, both)
        rows.append((name, ms(one), ms(two), f"{two / one:.2f}"))
        ratios.append(two / one)
        tell(f"{name}: {ms(one)} ms in one thread, {ms(two)} ms in two")
    return rows, ratios


def _both(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: work(), range(2)))


def _on_the_wall(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
