"""What each queue's share of the fleet is, by two measures (design.md 4.2).

The nominal share is a promise to everyone who may come: weight over the weights of all living queues.
The entitled share is about now: the fleet divided among those who want some of it, by weight, nobody
given more than they ask for (demand-capped weighted max-min).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from muster.engine.floor import Floor
from muster.engine.placement import never_fits
from muster.model.fleet import Fleet
from muster.model.resources import NOTHING, Resources, total
from muster.model.snapshot import QueueState, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares in micro-units of usage. `divisor` is the sum of weights that nominal shares are divided by."""

    capacity: Resources
    usage: int
    divisor: int
    nominal: Mapping[str, int]
    entitled: Mapping[str, int]
    wanted: Mapping[str, Resources]
    weights: Mapping[str, int]
    _by_resource: dict[str, dict[str, int]] = field(default_factory=dict, repr=False, compare=False)

    def entitled_to(self, resource: str) -> Mapping[str, int]:
        """Each queue's entitled part of one resource: the same division, by what is wanted of it."""
        if resource not in self._by_resource:
            demands = {name: wanted.get(resource) for name, wanted in self.wanted.items()}
            self._by_resource[resource] = entitled_shares(demands, self.weights, self.capacity.get(resource))
        return self._by_resource[resource]


def shares(snapshot: Snapshot, *, all_fit: bool = False) -> Shares:
    """Both shares of every queue. `all_fit`: every queued job is known to fit some empty cluster."""
    whole = Floor.of(snapshot).capacity()
    usage = snapshot.policy.weights.usage(whole)
    divisor = sum(state.queue.weight for state in snapshot.queues if counts_as_living(state, snapshot))
    never = {} if all_fit else {state.queue.name: _never(state, snapshot.fleet) for state in snapshot.queues}
    wanted = {
        state.queue.name: (state.demand - never.get(state.queue.name, NOTHING)).capped(state.queue.quota).lowest(whole)
        for state in snapshot.queues
    }
    demands = {name: snapshot.policy.weights.usage(resources) for name, resources in wanted.items()}
    weights = {state.queue.name: state.queue.weight for state in snapshot.queues}
    return Shares(
        capacity=whole,
        usage=usage,
        divisor=divisor,
        nominal={name: usage * weight // divisor if divisor else usage for name, weight in weights.items()},
        entitled=entitled_shares(demands, weights, usage),
        wanted=wanted,
        weights=weights,
    )


def counts_as_living(state: QueueState, snapshot: Snapshot) -> bool:
    """Queues nobody has used for long do not hold back room for newcomers (ADR 0010)."""
    recent = state.active_ms > snapshot.now_ms - snapshot.policy.share_memory_ms
    return not state.queue.cordoned and (recent or bool(state.demand))


def entitled_shares(demands: Mapping[str, int], weights: Mapping[str, int], whole: int) -> dict[str, int]:
    """Weighted max-min: fill everyone at the same rate per weight; whoever has enough stops."""
    entitled = dict.fromkeys(demands, 0)
    left, weight_left = whole, sum(weights[name] for name in demands if demands[name])
    hungry = [name for name in demands if demands[name]]
    is_even = len({weights[name] for name in hungry}) <= 1  # then demands say it all, and fast
    per_weight = {name: demands[name] if is_even else Fraction(demands[name], weights[name]) for name in hungry}
    for name in sorted(hungry, key=lambda name: (per_weight[name], name)):
        share = min(demands[name], left * weights[name] // weight_left)
        entitled[name] = share
        left -= share
        weight_left -= weights[name]
    return entitled


def _never(state: QueueState, fleet: Fleet) -> Resources:
    """What jobs ask for that can never start: nobody is entitled to that."""
    return total(
        lane.profile.most * len(lane.jobs) for lane in state.lanes if never_fits(fleet, lane.profile) is not None
    )
