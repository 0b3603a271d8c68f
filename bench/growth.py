"""Whether time grows no faster than the world: nodes, jobs, queues and profiles doubled, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.checking import hold_to_rules
from bench.measuring import MEASURE, judged, median, ms, table
from bench.turns import TRIES, carried_out, filled, idle_turns, made_world, warm_up
from bench.worlds import Size, scaled

BASE = Size(nodes=7_812, jobs=250_000, queues=50, profiles=150)
ALLOWED = 2.2  # "about double"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What one world took, in CPU seconds."""

    name: str
    size: Size
    times: int
    placements: int
    fill_s: float
    idle_s: float

    @property
    def each_s(self) -> float:
        """Of the filling plan, for each task placed."""
        return self.fill_s / self.placements


def growth() -> str:
    """A base, and each of its sizes doubled once and twice."""
    warm_up()
    grown = [_grown(name, times, size) for name, times, size in _sizes(scaled(BASE))]
    return "\n".join(
        [
            f"Base: {grown[0].size}. The filling plan is the best of {TRIES}, the turn with nothing to decide",
            "the median of five; in brackets: against the base. Other numbers of profiles make other worlds, not only",
            f"larger ones: compare what a placement takes. {MEASURE}",
            "",
            *table(
                ("world", "placements", "filling plan ms", "µs for each placement", "turn with nothing to decide ms"),
                [_row(one, grown[0]) for one in grown],
            ),
            "",
            *_judged(grown),
            "",
            "Of every world the checker passed every action of filling and the verdicts of 1,000 random waiting jobs.",
        ]
    )


def _sizes(base: Size) -> Iterator[tuple[str, int, Size]]:
    yield "base", 1, base
    for name in ("nodes", "jobs", "queues", "profiles"):
        for times in (2, 4):
            yield name, times, replace(base, **{name: times * getattr(base, name)})


def _grown(name: str, times: int, size: Size) -> Grown:
    state = made_world(size)
    filling = filled(state)
    hold_to_rules(filling.snapshot, filling.plan, f"{times} × {name}")
    idle = idle_turns(carried_out(state))
    return Grown(
        name=name,
        size=size,
        times=times,
        placements=filling.placements,
        fill_s=min(filling.plan_s),
        idle_s=median(turn.plan_s for turn in idle),
    )


def _row(one: Grown, base: Grown) -> Sequence[str]:
    return (
        one.name if one is base else f"{one.times} × {one.name}",
        f"{one.placements:,}",
        f"{ms(one.fill_s)} ({one.fill_s / base.fill_s:.2f})",
        f"{one.each_s * 1e6:.2f} ({one.each_s / base.each_s:.2f})",
        f"{ms(one.idle_s)} ({one.idle_s / base.idle_s:.2f})",
    )


def _judged(grown: Sequence[Grown]) -> Iterator[str]:
    """Each world against the one half as large."""
    before = grown[0]
    for one in grown[1:]:
        half = grown[0] if one.times == 2 else before
        for what, ratio in (("filling", one.fill_s / half.fill_s), ("nothing to decide", one.idle_s / half.idle_s)):
            word = judged(is_met=ratio <= ALLOWED)
            yield (
                f"- {one.name} from {one.times // 2} × to {one.times} ×, {what}: bar: at most about double; "
                f"measured {ratio:.2f} times: {word}."
            )
        before = one
