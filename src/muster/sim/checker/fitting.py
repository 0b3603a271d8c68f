"""How many tasks nodes take, and whether a job could ever start: as far as counting node by node can tell."""

from __future__ import annotations

from collections.abc import Callable

from muster.model.jobs import Profile, TaskGroup
from muster.model.nodes import DEVICE_MILLI, Node
from muster.sim.checker.nodes import NodeBook
from muster.sim.checker.world import Spot, World

BookOf = Callable[[Node], NodeBook]


def is_countable(profile: Profile) -> bool:
    """Whether counting is exact: one group, which does not mind how far apart its tasks are.

    Parts of several devices are left out: which devices a task gets is laid down, and may spoil the next.
    """
    group = profile.groups[0]
    mixes_parts = group.request.gpus > 1 and group.request.gpu_milli < DEVICE_MILLI
    return len(profile.groups) == 1 and (group.min == 1 or not (group.is_close or mixes_parts))


def may_start(world: World, profile: Profile, book_of: BookOf, *, everywhere: bool = False) -> bool:
    """Whether its pool has room in some cluster for every group's min, were that group alone.

    `everywhere`: on closed nodes too, and in pools that it may borrow from.
    """
    places = world.places(profile, abroad=everywhere)
    return any(may_start_in(world, place, profile, book_of, everywhere=everywhere) for place in places)


def may_start_in(world: World, place: Spot, profile: Profile, book_of: BookOf, *, everywhere: bool = False) -> bool:
    """Whether one place has room for every group's min, were that group alone."""
    return all(_holds(world, place, group, book_of, everywhere=everywhere) for group in profile.groups)


def _holds(world: World, place: Spot, group: TaskGroup, book_of: BookOf, *, everywhere: bool) -> bool:
    missing = group.min
    for node in world.admitting(place, group.constraint):
        if missing <= 0:
            break
        if everywhere or world.takes_tasks(node):
            missing -= book_of(node).how_many(group.request)
    return missing <= 0


class Ever:
    """Whether jobs could start on an empty fleet; answers are remembered."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._empty = {name: NodeBook(node.empty()) for name, node in world.nodes.items()}
        self._may: dict[Profile, bool] = {}

    def never(self, profile: Profile) -> bool:
        """Whether it certainly fits no cluster, even an empty one."""
        if profile not in self._may:
            self._may[profile] = may_start(self._world, profile, lambda node: self._empty[node.name], everywhere=True)
        return not self._may[profile]

    def surely(self, profile: Profile) -> bool:
        """Whether it certainly fits some empty cluster."""
        return is_countable(profile) and not self.never(profile)
