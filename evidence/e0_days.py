"""E0, days: streams of jobs by service and by the document's flow; gangs among unknown ends; what preemption costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

from evidence.e0_gangs import Grid, medians
from evidence.e0_preemption import Waves
from evidence.e0_streams import DAY_MIN, Stream, allowed, followed, off_by, random_streams, saturated
from evidence.experiment import Case, Outcome
from evidence.keeping import ROOT
from evidence.writing import bar, table
from muster.model.policy import FairBy, Policy, Preemption
from muster.model.queues import MINUTE_MS

PLOT = ROOT / "docs" / "evidence-days.svg"
SEEDS = range(12)
MOST_STARTS = 400
ACCURACY = 0.03
STORIES: Mapping[str, tuple[str, int, Sequence[Stream]]] = {
    "two": (
        "two equal queues, one machine, jobs of 10 min",
        1,
        [Stream(name=name, minutes=10) for name in "ab"],
    ),
    "six": (
        "six equal queues, four machines, jobs of the whole fleet, 20 min",
        4,
        [Stream(name=name, sizes=(4,), minutes=20) for name in "abcdef"],
    ),
    "weights": (
        "weights 1 and 3, two machines, jobs of both, 10 min",
        2,
        [Stream(name="a", sizes=(2,), minutes=10), Stream(name="b", weight=3, sizes=(2,), minutes=10)],
    ),
    "four": (
        "weights 1 to 4, eight machines, jobs of an hour",
        8,
        [Stream(name=name, weight=weight, minutes=60) for weight, name in enumerate("abcd", 1)],
    ),
    "short": (
        "jobs of 5 min against jobs of an hour, one machine",
        1,
        [Stream(name="a", minutes=5), Stream(name="b", minutes=60)],
    ),
    "gangs": (
        "gangs of six of eight machines against two queues of single jobs, 60 min",
        8,
        [Stream(name="a", sizes=(6,), minutes=60), *(Stream(name=name, minutes=60) for name in "bc")],
    ),
}
PLOTTED = "gangs"
GRIDS = [
    Grid(load=0.9, width=width, queues=queues, seed=seed)
    for width in (2, 4, 8)
    for queues in (1, 5)
    for seed in range(5)
]
"""Those of a load of 0.9; other loads are in `make soak`."""
WAVES = [Waves(load=1.1, seed=seed) for seed in range(4)]
_BACKFILL = {"on": True, "off": False}
_HEADINGS = ("world", "service: least part, %", "flow: least part, %", "service: of what is allowed")


def _policy(fair_by: FairBy) -> Policy:
    # Guesses are made anew every 10 minutes, not seconds: that decides who may pass whom, not whose turn it is.
    return Policy(over_share=None, fair_by=fair_by, reestimate_ms=10 * MINUTE_MS)


def told(machines: int, streams: Sequence[Stream], fair_by: FairBy, seed: int = 0) -> Outcome:
    """A day of such streams."""
    given, steps, starts = followed(saturated(machines, streams, _policy(fair_by), DAY_MIN, seed), step_min=30)
    off = off_by(given, streams)
    due = sum(given.values()) / sum(stream.weight for stream in streams)
    facts = {
        "worst": max(abs(off[it.name]) / allowed(it, streams) for it in streams),
        "accuracy": max(abs(off[it.name]) / (due * it.weight) for it in streams),
        "least": min(given[it.name] / (due * it.weight) for it in streams),
        "use": sum(given.values()) / (machines * DAY_MIN),
        "starts": starts,
    }
    columns = {it.name: [step[it.name] for step in steps] for it in streams}
    return Outcome(facts=facts, table={"minute": [30 * place for place in range(len(steps))], **columns})


def of_seed(seed: int, fair_by: FairBy) -> Outcome:
    """A day of a world that was made from a seed."""
    chance = Random(seed)
    machines = chance.randint(1, 8)
    return told(machines, random_streams(chance, machines, MOST_STARTS), fair_by, seed)


def gangs_of(grid: Grid, *, backfill: bool) -> Outcome:
    """How gangs fared in one world."""
    waited, used = grid.lived(backfill=backfill)
    return Outcome(facts={"used": used}, table={"waited": waited})


def preempted(waves: Waves, preemption: Preemption) -> Outcome:
    """How work fared in one world."""
    return Outcome(facts=waves.lived(preemption), table={})


class Days:
    """Whether anyone starves, how exactly weights are kept, how long gangs wait, and what preemption costs."""

    name = "E0"
    title = "fairness over days (worlds made from seeds)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        made = [Case(key=f"seed-{seed}/{by.value}", work=partial(of_seed, seed, by)) for seed in SEEDS for by in FairBy]
        for name, (_, machines, streams) in STORIES.items():
            made += [Case(key=f"{name}/{by.value}", work=partial(told, machines, streams, by)) for by in FairBy]
        for grid in GRIDS:
            for name, backfill in _BACKFILL.items():
                made.append(Case(key=f"gangs/{grid.key}/{name}", work=partial(gangs_of, grid, backfill=backfill)))
        for waves in WAVES:
            for preemption in (Preemption.ON, Preemption.OFF):
                key = f"preemption/{waves.seed}/{preemption.value}"
                made.append(Case(key=key, work=partial(preempted, waves, preemption)))
        return made

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md."""

        def fact(world: str, by: FairBy, name: str) -> float:
            return float(outcomes[f"{world}/{by.value}"].facts[name])

        rows = [
            [words, *(100 * fact(name, by, "least") for by in FairBy), fact(name, FairBy.SERVICE, "worst")]
            for name, (words, _, _) in STORIES.items()
        ]
        names = [f"seed-{seed}" for seed in SEEDS]
        worst = {by: max(fact(name, by, "worst") for name in names) for by in FairBy}
        exact = max(fact(name, FairBy.SERVICE, "accuracy") for name in STORIES)
        starved = {by: sum(fact(name, by, "least") < 0.5 for name in names) for by in FairBy}
        _draw(outcomes, PLOT)
        return "\n".join(
            [
                _PROTOCOL,
                "",
                *table(_HEADINGS, rows),
                "",
                f"![Gangs beside single jobs: what each queue got, by flow and by service]({PLOT.name})",
                "",
                *_of_seeds(len(names), starved, worst),
                "",
                bar(
                    f"nobody is off by more than its largest job and one of a rival: {worst[FairBy.SERVICE]:.2f}",
                    worst[FairBy.SERVICE] <= 1,
                ),
                bar(
                    f"weights are kept within 3 % over a day: {100 * exact:.1f} % in the worlds above", exact < ACCURACY
                ),
                "",
                *_of_gangs(outcomes),
                "",
                *_of_preemption(outcomes),
            ]
        )


def _of_seeds(worlds: int, starved: Mapping[FairBy, int], worst: Mapping[FairBy, float]) -> list[str]:
    return [
        f"Of {worlds} worlds made from seeds (1 to 8 machines, 2 to 12 queues, weights 1 to 20, jobs of one machine",
        "to all of them and of up to six hours, three in ten of known run times), a queue got less than half of",
        f"its part in {starved[FairBy.SERVICE]} by service and in {starved[FairBy.FLOW]} by flow.",
        f"The furthest that any queue was off is {worst[FairBy.SERVICE]:.2f} of what is allowed by service,",
        f"{worst[FairBy.FLOW]:.1f} by flow.",
    ]


def _of_gangs(outcomes: Mapping[str, Outcome]) -> list[str]:
    rows, holds = [], True
    for width, queues in dict.fromkeys((grid.width, grid.queues) for grid in GRIDS):
        keys = [grid.key for grid in GRIDS if (grid.width, grid.queues) == (width, queues)]
        found = {name: [outcomes[f"gangs/{key}/{name}"] for key in keys] for name in _BACKFILL}
        (wait, used), (wait_off, used_off) = (
            medians([it.table["waited"] for it in some], [float(it.facts["used"]) for it in some])
            for some in found.values()
        )
        holds &= wait <= 1.5 * wait_off and used >= used_off
        rows.append([f"{width} of 8 machines", queues, wait, wait_off, 100 * used, 100 * used_off])
    return [
        _GANGS,
        "",
        *table(("gangs", "queues", "wait, h", "wait, h: `off`", "in use, %", "in use, %: `off`"), rows),
        "",
        bar("a gang waits at most 1.5 times as long as with `backfill: off`, and no less is in use", holds),
    ]


def _of_preemption(outcomes: Mapping[str, Outcome]) -> list[str]:
    def mean(name: str, preemption: Preemption) -> float:
        found = [float(outcomes[f"preemption/{it.seed}/{preemption.value}"].facts[name]) for it in WAVES]
        return sum(found) / len(found)

    rows = [
        [
            f"`preemption: {it.value}`",
            round(mean("useful", it)),
            round(mean("lost", it)),
            round(mean("evictions", it)),
            100 * mean("shortfall", it),
        ]
        for it in (Preemption.ON, Preemption.OFF)
    ]
    kept = mean("useful", Preemption.ON) / mean("useful", Preemption.OFF)
    return [
        _PREEMPTION,
        "",
        *table(("", "useful GPU-hours", "thrown away", "evictions", "shortfall, %"), rows),
        "",
        bar(f"at least 97 % of the useful work without preemption: {100 * kept:.1f} %", kept >= 0.97),
    ]


def _draw(outcomes: Mapping[str, Outcome], target: Path) -> None:
    """What each queue was given as the day went on."""
    from matplotlib import pyplot as plt  # only the chapter needs it

    plt.rcParams["svg.hashsalt"] = "muster"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
    for axis, by in zip(axes, (FairBy.FLOW, FairBy.SERVICE), strict=True):
        found = outcomes[f"{PLOTTED}/{by.value}"].table
        hours = [minute / 60 for minute in found["minute"]]
        for name, words in zip("abc", ("gangs of six", "single jobs", "single jobs of another"), strict=True):
            axis.plot(hours, [given / 60 for given in found[name]], label=words)
        axis.set_title(f"fairBy: {by.value}")
        axis.set_xlabel("hours")
    axes[0].set_ylabel("machine-hours")
    axes[0].legend()
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


_PROTOCOL = """A day in which every queue has jobs in line all the time, of lifetime 0 or none. *Least part*: what
the queue that came off worst got, of its weight's part. *Of what is allowed*: how far a queue is from its part
after the day, where its largest job and one of a rival's is 1."""

_GANGS = """**Gangs where nobody knows the ends.** Eight machines of eight GPUs at a load of 0.9 for 72 hours: jobs of
one GPU and of one to eight hours, and every twelve hours a gang of whole machines, on one queue and spread over
five. Medians over five seeds; a gang that did not start counts as 72 hours. `backfill: off` lets nobody pass."""

_PREEMPTION = """**What preemption costs.** Three equal queues on 128 GPUs at an offered load of 1.1 for 72 hours: jobs
of one to eight GPUs and of one to twelve hours, with a lifetime of two. *Useful* is what ended or still runs.
*Shortfall*: how far queues with work in line were below a third, of all there is. Means over four seeds."""

EXPERIMENT = Days()
