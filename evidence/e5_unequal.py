"""E5, unequal clusters: training jobs that are faster on some GPUs than on others (Gavel, OSDI'20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import mean
from typing import NamedTuple

from evidence.e5_shares import least_attained
from evidence.experiment import Case, Outcome
from evidence.traces import trace
from evidence.writing import bar, table
from muster.model.plan import Move
from muster.model.policy import Policy
from muster.sim.simulate import Simulation
from muster.sim.traces.gavel import ROUND_MS, scenario

TRACES = {"96": "max_min_fairness.trace", "100": "minimize_makespan.trace"}
LAS_H, GANDIVA_H = 5.20, 20.93  # published: the bars
POINTS = 1
"""What a move must be worth: in this protocol it costs nothing, so whatever is gained is worth it."""

OTHERS = (*range(2, 14), 15, 20, 25, 30, 40, 50)


class Setting(NamedTuple):
    """How the engine is set, and whether it knows how long jobs run."""

    points: int | None  # that a move must be worth; None: nobody moves
    longest_first: bool = False


SETTINGS = {
    "preference": Setting(points=None),
    "moves": Setting(points=POINTS),
    "longest": Setting(points=POINTS, longest_first=True),
    **{f"moves-{points}": Setting(points=points) for points in OTHERS},
}


def under_muster(jobs: str, name: str) -> Outcome:
    """A trace under one setting."""
    setting = SETTINGS[name]
    policy = Policy(turn_ms=ROUND_MS, over_share=None, move_points=setting.points)
    throughputs = trace("gavel", "physical_cluster_throughputs.json.gz")
    made = scenario(trace("gavel", TRACES[jobs]), throughputs, policy, longest_first=setting.longest_first)
    simulation, moves = Simulation(made, estimates=False), 0
    for tick in simulation:
        moves += sum(isinstance(action, Move) for action in tick.moment.plan.actions)
    done_ms = simulation.run.done_ms
    hours = {entry.job.id: (done_ms[entry.job.id] - entry.job.submit_ms) / 3_600_000 for entry in made.jobs}
    facts = {"mean": mean(hours.values()), "makespan": max(done_ms.values()) / 3_600_000, "moves": moves}
    return Outcome(facts=facts, table={"job": list(hours), "hours": list(hours.values())})


def under_las(jobs: str) -> Outcome:
    """A trace under the baseline."""
    throughputs = trace("gavel", "physical_cluster_throughputs.json.gz")
    average, makespan = least_attained(trace("gavel", TRACES[jobs]), throughputs)
    return Outcome(facts={"mean": average, "makespan": makespan, "moves": 0})


class Unequal:
    """Preferred clusters and moves on Gavel's traces."""

    name = "E5"
    title = "unequal clusters (Gavel traces)"

    def cases(self) -> Sequence[Case]:
        """All that must be run, the longest first."""
        made = [
            Case(key=f"{jobs}/{name}", work=partial(under_muster, jobs, name)) for jobs in TRACES for name in SETTINGS
        ]
        return [*made, *(Case(key=f"{jobs}/las", work=partial(under_las, jobs)) for jobs in TRACES)]

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Its part of docs/evidence.md."""

        def told(jobs: str, name: str, fact: str) -> float:
            return float(outcomes[f"{jobs}/{name}"].facts[fact])

        def row(words: str, name: str) -> list[object]:
            moves = f"{told('96', name, 'moves'):.0f} / {told('100', name, 'moves'):.0f}"
            return [words, told("96", name, "mean"), told("100", name, "makespan"), moves]

        rows = [
            ["LAS / Gandiva, published", LAS_H, GANDIVA_H, "–"],
            ["Gavel, published", 3.82, 17.40, "–"],
            ["LAS, our reproduction", told("96", "las", "mean"), told("100", "las", "makespan"), "–"],
            row("Muster, the preferred cluster that has room", "preference"),
            row("**Muster, with moves**", "moves"),
            row("**Muster, with moves, longest first**", "longest"),
        ]
        own, span = told("96", "moves", "mean"), told("100", "longest", "makespan")
        own_known = told("96", "longest", "mean")
        blind = told("100", "moves", "makespan")
        return "\n".join(
            [
                _PROTOCOL,
                "",
                *table(["", "96 jobs: mean JCT, h", "100 jobs: makespan, h", "moves"], rows),
                "",
                bar(
                    f"longest first: mean JCT {own_known:.2f} h, below LAS' {LAS_H:.2f} (Gavel: 3.82)",
                    own_known < LAS_H,
                ),
                bar(
                    f"longest first: makespan {span:.2f} h, below Gandiva's {GANDIVA_H} (Gavel: 17.40)",
                    span < GANDIVA_H,
                ),
                bar(f"without run times: mean JCT {own:.2f} h, below LAS' {LAS_H:.2f} (Gavel: 3.82)", own < LAS_H),
                bar(f"without run times: makespan {blind:.2f} h, below Gandiva's {GANDIVA_H}", blind < GANDIVA_H),
                "",
                *_by_points(
                    {points: (told("96", name, "mean"), told("100", name, "makespan")) for points, name in _MOVING}
                ),
                "",
                _NOTES,
            ]
        )


_MOVING = [(POINTS, "moves"), *((points, f"moves-{points}") for points in OTHERS)]


def _by_points(found: Mapping[int, tuple[float, float]]) -> list[str]:
    """What comes of it if a move must be worth more or less."""
    both = [points for points, (average, span) in found.items() if average < LAS_H and span < GANDIVA_H]
    rows = [[str(points), f"{average:.2f}", f"{span:.2f}"] for points, (average, span) in found.items()]
    return [
        f"A move or an exchange must be worth {POINTS} point of preference in all: here it costs nothing, so whatever",
        "is gained is worth it. There is no other data to choose that on. It was 10 points before; these are all that",
        f"were tried. Below both bars are {', '.join(map(str, both))}.",
        "",
        *table(["points", "96 jobs: mean JCT, h", "100 jobs: makespan, h"], rows),
    ]


_PROTOCOL = """8 V100, 16 P100 and 24 K80 are three clusters; rounds of 360 s. What a job prefers is its measured
speed on each kind of GPU, in per cent of its best. A job that moves keeps what it has done."""

_NOTES = """For the mean completion time Muster knows speeds and no run times, as LAS and Gavel's policy do.
Gavel's policy for the makespan reads the steps that are left; to match it, jobs are submitted with priorities by how
long they run at best (longest first). LAS shares GPUs by time, which our engine does not do, so it is
a simulation of its own (`evidence/e5_shares.py`); it comes out slower than published, since Gavel's
LAS is any solution of a linear programme that has many, and which kinds of GPU a job's share is spent
on differs. Gandiva, which also packs pairs of jobs onto GPUs at random, was not reproduced."""

EXPERIMENT = Unequal()
