"""What each queue's share of the fleet is, by two measures (design.md 4.2).

The nominal share is a promise to everyone who may come: weight over the weights of all living queues.
The entitled share is about now: the fleet divided among those who want some of it, by weight, nobody
given more than they ask for (demand-capped weighted max-min).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property

from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.views import floor_of, kept_roll
from muster.engine.columns.wants import Known, Want
from muster.engine.never_fits import never_fits
from muster.model.fleet import Fleet
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import QueueState, Snapshot


class Shares:
    """Shares in micro-units of usage. `divisor` is the sum of weights that nominal shares are divided by.

    Who wants what, and is entitled to what, is worked out when someone asks: many turns never do.
    """

    def __init__(self, snapshot: Snapshot, divisor: int, *, all_fit: bool, known: Known | None = None) -> None:
        self.capacity = floor_of(snapshot).capacity()
        self.usage = snapshot.policy.weights.usage(self.capacity)
        self.divisor = divisor
        self._snapshot = snapshot
        self._all_fit = all_fit
        self._known = Known() if known is None else known
        self._by_resource: dict[str, dict[str, int]] = {}

    @cached_property
    def weights(self) -> Mapping[str, int]:
        """The weight of each queue."""
        return {state.queue.name: state.queue.weight for state in self._snapshot.queues}

    @cached_property
    def nominal(self) -> Mapping[str, int]:
        """The nominal share of each queue."""
        usage, divisor = self.usage, self.divisor
        return {name: usage * weight // divisor if divisor else usage for name, weight in self.weights.items()}

    @cached_property
    def wants(self) -> Mapping[str, Want]:
        """What each queue wants and could have."""
        never = {} if self._all_fit else _never(self._snapshot, self._snapshot.fleet)
        return self._known.wants_of(self._snapshot.queues, self.capacity, self._snapshot.policy.weights, never)

    @cached_property
    def entitled(self) -> Mapping[str, int]:
        """The entitled share of each queue."""
        demands = {name: want.usage for name, want in self.wants.items()}
        return entitled_shares(demands, self.weights, self.usage)

    def entitled_to(self, resource: str) -> Mapping[str, int]:
        """Each queue's entitled part of one resource: the same division, by what is wanted of it."""
        if resource not in self._by_resource:
            demands = {name: want.could_have.get(resource) for name, want in self.wants.items()}
            self._by_resource[resource] = entitled_shares(demands, self.weights, self.capacity.get(resource))
        return self._by_resource[resource]


def shares(snapshot: Snapshot) -> Shares:
    """Both shares of every queue."""
    divisor = sum(state.queue.weight for state in snapshot.queues if counts_as_living(state, snapshot))
    return Shares(snapshot, divisor, all_fit=False)


def counts_as_living(state: QueueState, snapshot: Snapshot) -> bool:
    """Queues nobody has used for long do not hold back room for newcomers (ADR 0010)."""
    recent = state.active_ms > snapshot.now_ms - snapshot.policy.share_memory_ms
    return not state.queue.cordoned and (recent or bool(state.demand))


def entitled_shares(demands: Mapping[str, int], weights: Mapping[str, int], whole: int) -> dict[str, int]:
    """Weighted max-min: fill everyone at the same rate per weight; whoever has enough stops."""
    if sum(demands.values()) <= whole:  # nobody has to stop before
        return dict(demands)
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


def _never(snapshot: Snapshot, fleet: Fleet) -> dict[str, Resources]:
    """What jobs of each queue ask for that can never start: nobody is entitled to that."""
    if (roll := kept_roll(snapshot)) is not None:
        return _never_in(roll, fleet)
    never: dict[str, Resources] = {}
    for state in snapshot.queues:
        for lane in state.lanes:
            if never_fits(fleet, lane.profile) is not None:
                never[state.queue.name] = never.get(state.queue.name, NOTHING) + lane.profile.most * len(lane.jobs)
    return never


def _never_in(roll: Roll, fleet: Fleet) -> dict[str, Resources]:
    """The same from columns, without making any job."""
    profiles = roll.profiles.names
    waiting = roll.waiting_with()[: len(profiles)].nonzero()[0].tolist()
    hopeless = {number for number in waiting if never_fits(fleet, profiles[number]) is not None}
    never: dict[str, Resources] = {}
    for queue, profile, many in roll.in_line() if hopeless else ():
        if profile in hopeless:
            name = roll.queues.names[queue]
            never[name] = never.get(name, NOTHING) + profiles[profile].most * many
    return never
