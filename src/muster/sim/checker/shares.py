"""What there is to share, and each queue's part of it by both measures (design.md 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from muster.model.queues import MICRO, Queue
from muster.model.resources import NOTHING, Resources
from muster.model.snapshot import QueueState
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """`whole` is the capacity in micro-units of usage; `divisor` the weights of all living queues together.

    `wanted` is what each queue could hold at most. Entitled shares are exact; whoever computes them in whole
    numbers is off by less than `slack`.
    """

    capacity: Resources
    whole: int
    divisor: int
    wanted: Mapping[str, Resources]
    queue_weights: Mapping[str, int]
    entitled: Mapping[str, Fraction]
    slack: int

    def entitled_to(self, resource: str) -> dict[str, Fraction]:
        """Each queue's part of one resource, divided in the same way."""
        demands = {name: wanted.get(resource) for name, wanted in self.wanted.items()}
        return _max_min(demands, self.queue_weights, self.capacity.get(resource))

    def nominal(self, queue: Queue) -> int:
        """The queue's part if every living queue took its own."""
        return self.whole * queue.weight // self.divisor if self.divisor else self.whole

    def most_fixed(self, queue: Queue, over_share: int | None) -> int | None:
        """How far the flow of jobs without a lifetime may go; None: not limited (design.md 4.4a)."""
        if over_share is None or not self.divisor:
            return None
        most = self.whole * queue.weight * over_share // (self.divisor * MICRO)
        return None if most >= self.whole else most


def shares_of(world: World, nodes: Mapping[str, NodeBook], started: Mapping[str, Resources]) -> Shares:
    """Both shares at the beginning of a turn."""
    weights, capacity = world.policy.weights, NOTHING
    for name, node in world.snapshot.nodes.items():
        is_open = world.takes_tasks(world.nodes[name])
        capacity = capacity + (node.empty.free if is_open else nodes[name].held)
    wanted = {
        name: (started[name] + waiting_in(world, state)).capped(state.queue.quota).lowest(capacity)
        for name, state in world.queues.items()
    }
    demands = {name: weights.usage(resources) for name, resources in wanted.items()}
    queue_weights = {name: state.queue.weight for name, state in world.queues.items()}
    whole = weights.usage(capacity)
    return Shares(
        capacity=capacity,
        whole=whole,
        divisor=sum(state.queue.weight for state in world.queues.values() if _is_living(world, state, started)),
        wanted=wanted,
        queue_weights=queue_weights,
        entitled=_max_min(demands, queue_weights, whole),
        slack=len(demands),
    )


def waiting_in(world: World, state: QueueState) -> Resources:
    """What the queue's queued and pending jobs ask for at their min."""
    total = NOTHING
    for lane in state.lanes:
        total = total + lane.profile.least * len(lane.jobs)
    for pending in world.pending.values():
        if pending.job.queue == state.queue.name:
            total = total + pending.job.profile.least
    return total


def _is_living(world: World, state: QueueState, started: Mapping[str, Resources]) -> bool:
    if state.queue.cordoned:
        return False
    in_use = bool(started[state.queue.name] or waiting_in(world, state))
    return in_use or world.now_ms - state.active_ms < world.policy.share_memory_ms


def _max_min(demands: Mapping[str, int], weights: Mapping[str, int], whole: int) -> dict[str, Fraction]:
    """Everyone gets the same per weight, or all they ask for if that is less."""
    shares = dict.fromkeys(demands, Fraction(0))
    hungry, left = {name for name in demands if demands[name]}, Fraction(whole)
    while hungry:
        per_weight = left / sum(weights[name] for name in hungry)
        content = {name for name in hungry if demands[name] <= per_weight * weights[name]}
        for name in content or hungry:
            shares[name] = min(Fraction(demands[name]), per_weight * weights[name])
            left -= shares[name]
        hungry = hungry - content if content else set()
    return shares
