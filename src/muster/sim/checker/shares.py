"""What there is to share, and each queue's part of it by both measures (design.md 4.2).

Jobs that can never start ask for nothing. Of some this cannot be told by counting; so what a queue wants, and
with it what everyone is entitled to, is known within bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from muster.model.jobs import Profile
from muster.model.queues import Queue
from muster.model.resources import MICRO, NOTHING, Resources, Weights, total
from muster.model.snapshot import QueueState
from muster.sim.checker.fitting import Ever
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """`whole` is the capacity in micro-units of usage; `divisor` the weights of all living queues together.

    `wanted` is what each queue could hold, at least and at most.
    """

    capacity: Resources
    whole: int
    divisor: int
    wanted: Mapping[str, tuple[Resources, Resources]]
    queue_weights: Mapping[str, int]
    weights: Weights
    _known: dict[tuple[str, str | None], tuple[Fraction, Fraction]] = field(default_factory=dict, repr=False)

    def nominal(self, queue: Queue) -> int:
        """The queue's part if every living queue took its own."""
        return self.whole * queue.weight // self.divisor if self.divisor else self.whole

    def most_fixed(self, queue: Queue, over_share: int | None) -> int | None:
        """How far the flow of jobs without a lifetime may go; None: not limited (design.md 4.4a)."""
        if over_share is None or not self.divisor:
            return None
        most = self.whole * queue.weight * over_share // (self.divisor * MICRO)
        return None if most >= self.whole else most

    def entitled(self, queue: str, resource: str | None = None) -> tuple[Fraction, Fraction]:
        """The queue's entitled share of one resource, or of everything in units of usage: at least and at most.

        It has most when it wants most and the others least. Whoever divides in whole numbers is off by less than
        one unit for each queue.
        """
        if (queue, resource) not in self._known:
            slack = len(self.wanted)
            least = max(self._divided(queue, resource, mine=0) - slack, Fraction(0))
            self._known[queue, resource] = (least, self._divided(queue, resource, mine=1) + slack)
        return self._known[queue, resource]

    def _divided(self, queue: str, resource: str | None, *, mine: int) -> Fraction:
        demands = {}
        for name, bounds in self.wanted.items():
            resources = bounds[mine if name == queue else 1 - mine]
            demands[name] = self.weights.usage(resources) if resource is None else resources.get(resource)
        there_is = self.whole if resource is None else self.capacity.get(resource)
        return _max_min(demands, self.queue_weights, there_is)[queue]


def shares_of(world: World, ever: Ever, nodes: Mapping[str, NodeBook]) -> Shares:
    """Both shares at the beginning of a turn."""
    capacity = total(
        state.empty.free if world.takes_tasks(world.nodes[name]) else nodes[name].held
        for name, state in world.snapshot.nodes.items()
    )
    wanted = {}
    for name, state in world.queues.items():
        bounds = (
            demand_of(world, state, without=lambda profile: not ever.surely(profile)),
            demand_of(world, state, without=ever.never),
        )
        least, most = (resources.capped(state.queue.quota).lowest(capacity) for resources in bounds)
        wanted[name] = (least, most)
    return Shares(
        capacity=capacity,
        whole=world.policy.weights.usage(capacity),
        divisor=sum(state.queue.weight for state in world.queues.values() if _is_living(world, state)),
        wanted=wanted,
        queue_weights={name: state.queue.weight for name, state in world.queues.items()},
        weights=world.policy.weights,
    )


def demand_of(world: World, state: QueueState, without: Callable[[Profile], bool] = lambda _: False) -> Resources:
    """What the queue's running and pending jobs ask for at their max, and its queued ones, `without` some of those."""
    demand = NOTHING
    for lane in state.lanes:
        if not without(lane.profile):
            demand = demand + _at_max(lane.profile) * len(lane.jobs)
    admitted = [*(pending.job for pending in world.pending.values()), *(run.job for run in world.running.values())]
    for job in admitted:
        if job.queue == state.queue.name:
            demand = demand + _at_max(job.profile)
    return demand


def _at_max(profile: Profile) -> Resources:
    return total(group.request.resources * group.max for group in profile.groups)


def _is_living(world: World, state: QueueState) -> bool:
    if state.queue.cordoned:
        return False
    return bool(demand_of(world, state)) or world.now_ms - state.active_ms < world.policy.share_memory_ms


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
