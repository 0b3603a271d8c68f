"""E0, fairness over days: streams of jobs that never end, by service and by the document's flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

from evidence.e0_streams import DAY_MIN, Stream, allowed, followed, off_by, random_streams, saturated
from evidence.experiment import Case, Outcome
from evidence.keeping import ROOT
from evidence.writing import bar, table
from muster.model.policy import FairBy, Policy
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


class Days:
    """Whether anyone starves, and how exactly weights are kept."""

    name = "E0"
    title = "fairness over days (worlds made from seeds)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        made = [Case(key=f"seed-{seed}/{by.value}", work=partial(of_seed, seed, by)) for seed in SEEDS for by in FairBy]
        for name, (_, machines, streams) in STORIES.items():
            made += [Case(key=f"{name}/{by.value}", work=partial(told, machines, streams, by)) for by in FairBy]
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

EXPERIMENT = Days()
