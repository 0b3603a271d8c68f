"""E1: how much of a fleet of shared GPUs can be handed out before fragments are in the way ("Beware of
Fragmentation", ATC'23).

Pods are offered one after the other and never leave; who fits nowhere is dropped. Here they are jobs without an end in
one queue, first come first served, without reservations. Nothing ever leaves, so who does not fit when it comes never
will: it may as well go on waiting, and many pods may share a turn. Only what a turn knows of typical pods and of the
room they have is then as old as the turn, which is TOGETHER pods at most.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from statistics import mean, stdev
from typing import Any

from evidence import writing
from evidence.experiment import Case, Outcome
from evidence.traces import trace
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.jobs import Job
from muster.model.labels import Constraint
from muster.model.nodes import Node, Request
from muster.model.placement import Placement, PlacementRule, Typical
from muster.model.policy import Policy, Preemption
from muster.model.queues import Queue
from muster.model.resources import GPU, MEMORY, Resources
from muster.sim.scenario.scenario import Scenario, ScriptJob
from muster.sim.simulate import Simulation
from muster.sim.traces import openb

SEEDS = range(42, 52)
TUNED_ON = ("default", range(42, 45))
LISTS = (
    "default",
    "cpu100",
    "cpu250",
    "gpushare40",
    "gpushare100",
    "gpuspec10",
    "gpuspec33",
    "multigpu20",
    "multigpu50",
)
TOGETHER = 80
ARRIVED = 130  # percent of capacity, at most
ENOUGH = 101  # where only what is allocated at 100 is asked for: who comes later changes nothing before
COVERED = 95  # percent of the pods, by those that FGD takes for typical
BAR = 95.3

RANDOM, DOT, PACKING, BEST, TIGHTEST, FGD = "random", "dotProduct", "packing", "bestFit", "tightest", "fgd"
OURS, TOLD = "fragmentation", "fragmentation, told"
ON_ALL = (OURS, FGD, BEST, PACKING, RANDOM)
PUBLISHED = {RANDOM: "01-Random", DOT: "02-DotProd", PACKING: "04-GpuPacking", BEST: "05-BestFit", FGD: "06-FGD"}


class Fragmentation:
    """The experiment."""

    name = "E1"
    title = "Fragmentation"

    def cases(self) -> Sequence[Case]:
        """Each rule on each list, the slowest first; what nobody published is run on the default list."""
        found = [(name, rule) for rule in ON_ALL for name in LISTS]
        found += [("default", rule) for rule in (TOLD, DOT, TIGHTEST)]
        return [Case(key=f"{name}/{rule}", work=partial(offer_all, name, rule)) for name, rule in found]

    def chapter(self, outcomes: Mapping[str, Outcome]) -> str:
        """Allocated GPUs when as many were asked for as there are."""
        return "\n".join(_chapter(outcomes, published()))


EXPERIMENT = Fragmentation()


# --- the protocol -------------------------------------------------------------------------------


def sequence(pods: Sequence[openb.Pod], seed: int, capacity: int, percent: int = ARRIVED) -> list[openb.Pod]:
    """The pods in the order of a seed, then others drawn from them, as long as no more is asked for than may be."""
    chance, most, asked = Random(seed), percent * capacity // 100, 0
    line = sorted(pods, key=lambda pod: pod.name)
    chance.shuffle(line)
    everyone, offered = sorted(pods, key=lambda pod: pod.name), list[openb.Pod]()
    while asked + (pod := line[len(offered)] if len(offered) < len(line) else chance.choice(everyone)).milli <= most:
        offered.append(pod)
        asked += pod.milli
    return offered


def nodes_in_order_of(seed: int) -> tuple[Node, ...]:
    """The nodes, named so that ties between them go by one order for each seed."""
    path = str(trace("openb", "openb_node_list_gpu_node.csv"))
    names = [node.name for node in openb.nodes(path, "openb")]
    Random(seed).shuffle(names)
    return openb.nodes(path, "openb", {name: f"node-{place:04}" for place, name in enumerate(names)})


def typical(pods: Sequence[openb.Pod]) -> tuple[Typical, ...]:
    """What FGD is granted: the most frequent requests of the whole list, memory aside, until most pods are covered."""
    counts: dict[tuple[Request, Constraint], int] = {}
    for pod in pods:
        asks = {name: amount for name, amount in pod.request.resources.items() if name != MEMORY}
        kind = (replace(pod.request, resources=Resources.of(asks)), pod.profile.groups[0].constraint)
        counts[kind] = counts.get(kind, 0) + 1
    kinds = [Typical(request=request, constraint=where, count=many) for (request, where), many in counts.items()]
    found, covered = list[Typical](), 0
    for kind in sorted(kinds, key=lambda it: it.order):
        if covered * 100 >= COVERED * len(pods):
            break
        found.append(kind)
        covered += kind.count
    return tuple(found)


def policy(rule: str, seed: int, pods: Sequence[openb.Pod]) -> Policy:
    """One queue, first come first served, nobody gives way; only the placement differs."""
    is_told = rule in {FGD, TOLD}
    placement = Placement(
        rule=PlacementRule(OURS if rule == TOLD else rule), seed=seed, typical=typical(pods) if is_told else ()
    )
    return Policy(
        turn_ms=1,
        gpu_first=False,
        over_share=None,
        reservations=0,
        preemption=Preemption.OFF,
        elastic_every_ms=None,
        profiles_deep=1 << 20,
        placement=placement,
    )


def offer(pods: Sequence[openb.Pod], nodes: tuple[Node, ...], rules: Policy) -> list[bool]:
    """Offer pods; which of them found room."""
    jobs = [
        ScriptJob(job=Job(id=f"pod-{place}", queue="pods", profile=pod.profile, submit_ms=place // TOGETHER))
        for place, pod in enumerate(pods)
    ]
    scenario = Scenario(
        policy=rules,
        clusters=(Cluster(name="openb"),),
        nodes=nodes,
        queues=(Queue(name="pods"),),
        jobs=tuple(jobs),
    )
    found = {
        event.job
        for tick in Simulation(scenario, estimates=False)
        for event in tick.moment.events
        if isinstance(event, ev.JobStarted)
    }
    return [entry.job.id in found for entry in jobs]


def offer_all(name: str, rule: str) -> Outcome:
    """One list with all seeds: the allocated percent for each percent that has arrived."""
    pods = list(openb.pods(str(trace("openb", f"openb_pod_list_{name}.csv"))))
    curves: dict[str, list[float]] = {"arrived": [float(percent) for percent in range(ARRIVED + 1)]}
    for seed in SEEDS:
        nodes = nodes_in_order_of(seed)
        capacity = sum(node.allocatable.get(GPU) for node in nodes)
        offered = sequence(pods, seed, capacity, ARRIVED if name == TUNED_ON[0] else ENOUGH)
        found = offer(offered, nodes, policy(rule, seed, pods))
        curves[str(seed)] = curve(offered, found, capacity)
    return Outcome(facts={f"at100/{seed}": curves[str(seed)][100] for seed in SEEDS}, table=curves)


def curve(offered: Sequence[openb.Pod], found: Sequence[bool], capacity: int) -> list[float]:
    """The mean of what is allocated over all pods at which the arrived percent rounds to each whole one."""
    sums, counts = [0.0] * (ARRIVED + 1), [0] * (ARRIVED + 1)
    arrived = allocated = 0
    for pod, is_in in zip(offered, found, strict=True):
        arrived += pod.milli
        allocated += pod.milli * is_in
        percent = round(100 * arrived / capacity)
        sums[percent] += 100 * allocated / capacity
        counts[percent] += 1
    return [total / many if many else float("nan") for total, many in zip(sums, counts, strict=True)]


# --- the chapter --------------------------------------------------------------------------------


def published() -> dict[tuple[str, str], list[float]]:
    """By list and rule, what was published for each seed at 100 % arrived."""
    rules = {theirs: ours for ours, theirs in PUBLISHED.items()}
    found: dict[tuple[str, str], list[float]] = {}
    with open(trace("openb", "published_allocation.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["sc_policy"] in rules:
                name = row["workload"].removeprefix("openb_pod_list_")
                found.setdefault((name, rules[row["sc_policy"]]), []).append(float(row["100"]))
    return found


def _at_100(outcome: Outcome, seeds: Sequence[int] = SEEDS) -> float:
    return mean(float(outcome.facts[f"at100/{seed}"]) for seed in seeds)


def _chapter(outcomes: Mapping[str, Outcome], theirs: Mapping[tuple[str, str], list[float]]) -> list[str]:
    ours = {name: _at_100(outcomes[f"{name}/{OURS}"]) for name in LISTS}
    above = {name: ours[name] - max(mean(theirs[name, FGD]), _at_100(outcomes[f"{name}/{FGD}"])) for name in LISTS}
    fresh = [seed for seed in SEEDS if seed not in TUNED_ON[1]]
    spread = stdev(float(outcomes[f"default/{OURS}"].facts[f"at100/{seed}"]) for seed in SEEDS)
    return [
        "1,213 nodes with 6,212 GPUs (Alibaba, 2023). Pods are offered one after the other and never leave; who fits",
        "nowhere is dropped. Told is what percent of all GPUs is allocated when pods that ask for 100 % have come: the",
        "mean over seeds 42 to 51. They shuffle pods and node names, by Python's generator; the publication used Go's.",
        "",
        writing.bar(
            f"at least {BAR} on the default list: {ours['default']:.2f} (sd {spread:.2f})", ours["default"] >= BAR
        ),
        writing.bar(
            f"above FGD, as published and as reproduced, on every list: by {min(above.values()):.2f} at least",
            min(above.values()) > 0,
        ),
        f"- aimed at 96 on the default list: {'reached' if ours['default'] >= 96 else 'not reached'}. "
        "1,078 of its pods ask for 0.81 of a GPU, and hardly anything fits beside them: placing all of them leaves",
        "  3.1 % of the fleet idle, whoever places.",
        "",
        "### The default list",
        "",
        *writing.table(["rule", "published", "reproduced", "difference"], _baselines(outcomes, theirs)),
        "",
        f"`fragmentation` knows only what has come so far. Told the list's typical pods beforehand, as FGD is: "
        f"{_at_100(outcomes[f'default/{TOLD}']):.2f}.",
        f"It was chosen on seeds 42 to 44 of this list ({_at_100(outcomes[f'default/{OURS}'], TUNED_ON[1]):.2f}); "
        f"on the other seeds it has {_at_100(outcomes[f'default/{OURS}'], fresh):.2f}.",
        "",
        "### Every list",
        "",
        "In brackets: published. The numbers of the rule were chosen on the default list. Its form was not chosen",
        "blindly: an earlier one, without weights by what a kind can use, was tried with seed 45 on all lists and lost",
        "to FGD on gpuspec33 alone. Those weights, and that rare kinds are not forgotten, were found on that list with",
        "seed 42.",
        "",
        *writing.table(["list", *ON_ALL[::-1], "above FGD"], _lists(outcomes, theirs, above)),
        "",
        *_differences(outcomes, theirs),
    ]


def _baselines(outcomes: Mapping[str, Outcome], theirs: Mapping[tuple[str, str], list[float]]) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for rule in (RANDOM, DOT, PACKING, BEST, FGD):
        told, made = mean(theirs["default", rule]), _at_100(outcomes[f"default/{rule}"])
        rows.append([rule, told, made, f"{100 * (made - told) / told:+.2f} %"])
    for rule in (TIGHTEST, OURS):
        rows.append([f"**{rule}**" if rule == OURS else rule, "–", _at_100(outcomes[f"default/{rule}"]), "–"])
    return rows


def _lists(
    outcomes: Mapping[str, Outcome], theirs: Mapping[tuple[str, str], list[float]], above: Mapping[str, float]
) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for name in LISTS:
        row: list[Any] = [name]
        for rule in ON_ALL[::-1]:
            made = f"{_at_100(outcomes[f'{name}/{rule}']):.2f}"
            row.append(f"{made} ({mean(theirs[name, rule]):.2f})" if (name, rule) in theirs else f"**{made}**")
        rows.append([*row, f"{above[name]:+.2f}"])
    return rows


def _differences(outcomes: Mapping[str, Outcome], theirs: Mapping[tuple[str, str], list[float]]) -> list[str]:
    """Where a baseline came out otherwise than it was published."""
    far = []
    for name in LISTS:
        for rule in ON_ALL:
            if (name, rule) in theirs:
                told, made = mean(theirs[name, rule]), _at_100(outcomes[f"{name}/{rule}"])
                if abs(made - told) > told / 50:
                    far.append(f"{rule} on {name} ({made:.2f} for {told:.2f})")
    if not far:
        return ["Every baseline came out within 2 % of what was published."]
    return [f"Baselines further than 2 % from what was published: {', '.join(far)}."]
