"""What was simulated, in words: the fleet, the queues, and the rules that were not the defaults."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from enum import Enum

from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import MICRO, Resources, Weights, total
from muster.sim.report import words
from muster.sim.scenario.scenario import Scenario

_MOST = 6  # kinds of node or queues that are told one by one


def fleet(scenario: Scenario) -> str:
    """How many nodes of which kind, and what they have together."""
    if not scenario.nodes:
        return "No nodes: every cluster is opaque."
    kinds = Counter(node.allocatable for node in scenario.nodes)
    clusters = {node.cluster for node in scenario.nodes}
    told = [f"{words.count(many)} with {words.amounts(each)}" for each, many in kinds.most_common(_MOST)]
    if len(kinds) > _MOST:
        told.append(f"{words.count(sum(kinds.values()) - sum(dict(kinds.most_common(_MOST)).values()))} of other kinds")
    where = f"{len(clusters)} clusters" if len(clusters) > 1 else "one cluster"
    whole = total(_without_pods(node.allocatable) for node in scenario.nodes)
    return f"{words.count(len(scenario.nodes))} nodes in {where}: {'; '.join(told)}. Together {words.amounts(whole)}."


def queues(scenario: Scenario) -> str:
    """Who shares the fleet."""
    if not scenario.queues:
        return "No queues."
    by_weight: dict[int, list[Queue]] = {}
    for queue in scenario.queues:
        by_weight.setdefault(queue.weight, []).append(queue)
    if len(by_weight) == 1:
        same = " of the same weight" if len(scenario.queues) > 1 else ""
        return f"{_queues(len(scenario.queues))}{same}."
    told = [
        f"{_queues(len(group))} of weight {weight / MICRO:g}"
        for weight, group in sorted(by_weight.items(), reverse=True)[:_MOST]
    ]
    return f"{words.listed(told)}{' and others' if len(by_weight) > _MOST else ''}."


def _queues(many: int) -> str:
    return "one queue" if many == 1 else f"{words.count(many)} queues"


def rules(policy: Policy) -> list[tuple[str, str]]:
    """The settings people ask about first, then every other one that is not the default: name and value."""
    default, told = Policy(), []
    for field in fields(Policy):
        value = getattr(policy, field.name)
        if field.name in _ALWAYS or value != getattr(default, field.name):
            told.append(
                (_NAMES.get(field.name, field.name.removesuffix("_ms").replace("_", " ")), _value(field.name, value))
            )
    return told


_ALWAYS = {"half_time_ms", "over_share", "reservations", "backfill", "preemption"}
_NAMES = {
    "half_time_ms": "half time of flow",
    "over_share": "most a queue may hold without lifetimes",
    "reservations": "reservations for each cluster and kind",
    "backfill": "backfill",
    "preemption": "preemption",
    "preempts_for_shares": "preemption for shares",
    "turn_ms": "time between turns",
    "aging_after_ms": "ageing after",
    "weights": "what counts how much in usage",
}


def _value(name: str, value: object) -> str:
    if value is None:
        return "no limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Weights):
        return ", ".join(f"{words.resource(each)} {micro / MICRO:g}" for each, micro in value.micro)
    if name == "over_share" and isinstance(value, int):
        return f"{value / MICRO:g} × its nominal share"
    if name.endswith("_ms") and isinstance(value, int):
        return words.span(value)
    if isinstance(value, tuple):
        return f"{len(value)} entries"
    return str(value)


def _without_pods(resources: Resources) -> Resources:
    return Resources({name: amount for name, amount in resources.items() if name != "pods"})
