"""How fast turns are on a million cores: to fill them all, with nothing to decide, and with jobs coming and going."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import process_time

from bench.bare import Bare, bare_fill
from bench.checking import hold_to_rules
from bench.measuring import MEASURE, below, median, ms, ratio_at_least, table, tell, timed
from bench.worlds import PLAIN, Kind, Size, built, freeze_garbage, scaled
from muster.engine import plan as decide
from muster.engine.planning import effort
from muster.model.events import JobSucceeded
from muster.model.plan import Evict, Plan, Start
from muster.model.snapshot import Snapshot
from muster.state.run import Run
from muster.state.state import State

FIRST_MS = 10_000  # the last of a million jobs has come
SECOND_MS = 1000
TRIES = 7  # the machine is not ours alone: the best of so many is what a plan takes
TURNS = 5
MOST_SETTLING = 20  # turns
CHURN = 2000  # jobs
FILL_BAR = 0.4  # of the bare kernel's speed
IDLE_BAR_MS, CHURN_BAR_MS = 20, 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What filling an empty world took: CPU seconds of each try, for the plan and for going through its actions."""

    snapshot: Snapshot
    plan: Plan
    placements: int
    starts: int
    plan_s: tuple[float, ...]
    actions_s: tuple[float, ...]

    @property
    def rate(self) -> float:
        """Placements per second of the fastest plan."""
        return self.placements / min(self.plan_s)

    @property
    def whole_s(self) -> tuple[float, ...]:
        """Plan and all its actions, try by try."""
        return tuple(map(sum, zip(self.plan_s, self.actions_s, strict=True)))

    @property
    def whole_rate(self) -> float:
        """Placements per second of the fastest try, all actions made."""
        return self.placements / min(self.whole_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One timed turn on a world that goes on."""

    freeze_s: float
    plan_s: float
    actions_s: float
    starts: int
    evictions: int
    plan: Plan | None = None  # only if it is to be looked at: whoever goes on lets it go before the next
    snapshot: Snapshot | None = None


def fill() -> str:
    """Fill a million cores from empty, then nothing to decide, then 2,000 jobs ending each turn."""
    size = scaled(Size())
    warm_up()
    state = made_world(size)
    filling = filled(state)
    bare = bare_fill(filling.snapshot, len(filling.plan_s))
    scanned, placed = effort(filling.snapshot)
    checked = [hold_to_rules(filling.snapshot, filling.plan, "Filling")]
    run = carried_out(state)
    idle = idle_turns(run)
    ended = churn_of(run)
    churning = list(churn_turns(run, Random(1)))
    last = churning[-1]
    assert last.snapshot is not None
    assert last.plan is not None
    checked.append(hold_to_rules(last.snapshot, last.plan, "The last churning turn"))
    return "\n".join(
        [
            f"{size}; nodes of 32 cores / 128 GiB. {MEASURE}",
            "",
            *table(FILL_HEADINGS, [fill_row("filling from empty", filling)]),
            "",
            f"{filling.starts:,} jobs started. {scanned / placed:.2f} nodes were looked at for each task placed.",
            f"{distinct_profiles(filling.snapshot):,} distinct profiles were queued.",
            "",
            *fill_bars(filling, bare, FILL_BAR),
            "",
            *table(TURN_HEADINGS, [turn_row("nothing to decide", idle), turn_row(f"{ended:,} jobs ended", churning)]),
            "",
            below(
                "A turn with nothing to decide (median)", IDLE_BAR_MS, 1000 * median(it.plan_s for it in idle), " ms"
            ),
            below(
                f"A turn after {ended:,} jobs ended (median, actions made)",
                CHURN_BAR_MS,
                1000 * median(it.plan_s + it.actions_s for it in churning),
                " ms",
            ),
            "",
            *checked,
        ]
    )


FILL_HEADINGS = (
    "world",
    "placements",
    "plan ms: first",
    "median",
    "best",
    "all actions ms",
    "placements/s, plan alone",
    "placements/s, with all actions",
)
FIRST_WORDS = "The first plan of a fleet also reads every node once; later snapshots of the same nodes need not."
BARE_WORDS = (
    "The bare kernel (bench/bare.py) fills the same nodes with the same jobs by best fit, in order of submission, and "
    "honours nothing but room and which nodes may take a task. Checked: no node is over its room, and nothing that is "
    "left would fit."
)
TURN_HEADINGS = ("turn", "freeze ms", "plan ms: median", "first", "slowest", "actions ms", "jobs started")


def fill_row(name: str, filling: Filling) -> Sequence[str]:
    """One world in the table of fillings."""
    return (
        name,
        f"{filling.placements:,}",
        ms(filling.plan_s[0]),
        ms(median(filling.plan_s)),
        ms(min(filling.plan_s)),
        ms(min(filling.actions_s)),
        f"{filling.rate:,.0f}",
        f"{filling.whole_rate:,.0f}",
    )


def fill_bars(filling: Filling, bare: Bare, bar: float) -> list[str]:
    """What a placement takes beside the bare kernel's; the bar is for a plan all of whose actions are made."""
    each_s = min(bare.seconds) / bare.placements
    rows = [("bare kernel", bare.placements, min(bare.seconds))]
    rows += [("plan alone", filling.placements, min(filling.plan_s))]
    rows += [("plan and all actions", filling.placements, min(filling.whole_s))]
    rows += [("the first plan of the fleet and all actions", filling.placements, filling.whole_s[0])]
    return [
        FIRST_WORDS,
        BARE_WORDS,
        "",
        *table(
            ("what", "tasks placed", "CPU ms", "µs for each", "speed: bare kernel = 1"),
            [
                (what, f"{many:,}", ms(took_s), f"{took_s / many * 1e6:.2f}", f"{each_s * many / took_s:.2f}")
                for what, many, took_s in rows
            ],
        ),
        "",
        ratio_at_least(
            f"Placements per second, every action made, over the bare kernel's, each the best of {TRIES}",
            bar,
            filling.whole_rate / bare.rate,
        ),
    ]


def turn_row(name: str, turns: Sequence[Turn]) -> Sequence[str]:
    """Some turns in the table of turns."""
    return (
        name,
        ms(median(turn.freeze_s for turn in turns)),
        ms(median(turn.plan_s for turn in turns)),
        ms(turns[0].plan_s),
        ms(max(turn.plan_s for turn in turns)),
        ms(median(turn.actions_s for turn in turns)),
        f"{min(turn.starts for turn in turns):,} to {max(turn.starts for turn in turns):,}",
    )


# -- worlds ------------------------------------------------------------------------------------------


def warm_up(kind: Kind = PLAIN) -> None:
    """Plan a small world, and go on with it for some turns, so that kernels are loaded before anything is timed."""

    def live() -> None:
        state = built(Size(nodes=1000, jobs=30_000), kind)
        filled(state, tries=1)
        list(churn_turns(carried_out(state), Random(0)))

    _, seconds = timed(live)
    tell(f"kernels are loaded ({seconds:.0f} s)")


def made_world(size: Size, kind: Kind = PLAIN) -> State:
    """The world of that size, told on the way."""
    state, seconds = timed(lambda: built(size, kind))
    tell(f"made a world of {size} in {seconds:.0f} s")
    return state


def distinct_profiles(snapshot: Snapshot) -> int:
    """How many different profiles the queued jobs really have."""
    return len({lane.profile for state in snapshot.queues for lane in state.lanes})


def filled(state: State, tries: int = TRIES, decide: Callable[[Snapshot], Plan] = decide) -> Filling:
    """Plan the empty world, each try on the same snapshot; nothing is carried out."""
    snapshot = state.freeze(FIRST_MS)
    plan_s, actions_s = [], []
    plan = Plan(now_ms=FIRST_MS)
    for _ in range(tries):
        plan, seconds = timed(lambda: decide(snapshot))
        plan_s.append(seconds)
        actions_s.append(go_through(plan))
    starts = [action for action in plan.actions if isinstance(action, Start)]
    filling = Filling(
        snapshot=snapshot,
        plan=plan,
        placements=sum(len(start.tasks) for start in starts),
        starts=len(starts),
        plan_s=tuple(plan_s),
        actions_s=tuple(actions_s),
    )
    tell(f"planned {filling.placements:,} placements, best {ms(min(plan_s))} ms")
    return filling


def go_through(plan: Plan) -> float:
    """CPU seconds to do what the executor does: look at every action once."""

    def look() -> None:
        for _ in plan.actions:
            pass

    return timed(look)[1]


# -- turns on the full world -------------------------------------------------------------------------


def carried_out(state: State) -> Run:
    """The world once its first plan is carried out and turns have nothing more to decide. Nothing ends by itself."""
    run = Run(state, lambda _: None)
    now_ms = FIRST_MS
    _, seconds = timed(lambda: run.step(now_ms))
    tell(f"carried out the plan in {seconds:.0f} s")
    settle(run, now_ms)
    freeze_garbage()
    return run


def settle(run: Run, now_ms: int) -> None:
    """Turns until one has nothing to decide."""
    for turn in range(1, MOST_SETTLING + 1):
        start = process_time()
        moment = run.step(now_ms + turn * SECOND_MS)
        seconds = process_time() - start
        tell(f"settling: {len(moment.plan.actions):,} actions in {seconds:.1f} s")
        if moment.plan.is_empty:
            return


def idle_turns(run: Run) -> list[Turn]:
    """Turns a second apart in which nothing happens."""
    return [timed_turn(run, run.state.now_ms + SECOND_MS) for _ in range(TURNS)]


def churn_of(run: Run) -> int:
    """How many jobs end before a churning turn: fewer where only few run."""
    return min(CHURN, len(run.state.running) // 10)


def churn_turns(run: Run, rng: Random) -> Iterator[Turn]:
    """Turns a second apart, before each of which random running jobs end."""
    for number in range(TURNS):
        now_ms = run.state.now_ms + SECOND_MS
        for job in rng.sample(sorted(run.state.running), churn_of(run)):
            run.state.apply(JobSucceeded(job=job, attempt=run.state.running[job].attempt), now_ms)
        yield timed_turn(run, now_ms, keeps=number == TURNS - 1)


def timed_turn(run: Run, at_ms: int, *, keeps: bool = False) -> Turn:
    """Time a turn, then let the world take it; `keeps` the snapshot so that it can be checked after that."""
    snapshot, freeze_s = timed(lambda: run.state.freeze(at_ms))
    plan, plan_s = timed(lambda: decide(snapshot))
    actions_s = go_through(plan)
    if keeps:
        snapshot.settle()
    run.step(at_ms)  # decides the same once more
    turn = Turn(
        freeze_s=freeze_s,
        plan_s=plan_s,
        actions_s=actions_s,
        starts=sum(isinstance(action, Start) for action in plan.actions),
        evictions=sum(isinstance(action, Evict) for action in plan.actions),
        plan=plan if keeps else None,
        snapshot=snapshot if keeps else None,
    )
    tell(f"a turn: {turn.evictions:,} evictions, {turn.starts:,} starts, plan {ms(plan_s)} ms")
    return turn
