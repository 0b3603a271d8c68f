"""What each pool's turn sees of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from muster.engine.columns.views import Columns, floor_of
from muster.engine.opening import Opened
from muster.model.calendar import Window
from muster.model.fleet import Fleet
from muster.model.policy import Policy, Preemption
from muster.model.pools import DEFAULT_POOL
from muster.model.resources import total
from muster.model.snapshot import Snapshot


def divided(snapshot: Snapshot, opened: Opened) -> dict[str, Snapshot]:
    """A snapshot for each pool: its nodes, and the pending jobs that belong to it."""
    fleet, floors = snapshot.fleet, floor_of(snapshot).parts()
    return {
        name: replace(
            snapshot,
            fleet=part,
            part_of=fleet,
            policy=policy_in(snapshot.policy, part),
            pending=tuple(it for it in snapshot.pending if fleet.home(it.job.profile) == name),
            columns=Columns(roll=opened.roll.sight(), runs=opened.runs.sight(), floor=floors[name].sight()),
        )
        for name, part in fleet.parts.items()
    }


def policy_in(policy: Policy, part: Fleet) -> Policy:
    """The policy of one pool: whom it may evict, and what the calendar withholds there."""
    if not part.preempts_in:
        policy = replace(policy, preemption=Preemption.OFF)
    if part.preempts_in != frozenset(part.clusters):
        policy = replace(policy, may_evict_all=False)
    if any(it.pool or part.pool.name or not it.cluster for it in policy.calendar):
        policy = replace(policy, calendar=tuple(_windows(policy.calendar, part)))
    return policy


def _windows(calendar: Iterable[Window], part: Fleet) -> Iterator[Window]:
    """The windows of one pool; those that name none are the default pool's."""
    for window in calendar:
        if (window.pool or DEFAULT_POOL) == part.pool.name:
            yield from [window] if window.cluster else _spread(window, part)


def _spread(window: Window, part: Fleet) -> Iterator[Window]:
    """A window without a cluster is of all of them: of each in order of name, as far as it has that much."""
    left = window.withhold
    for cluster in part.clusters:
        there = left.lowest(total(node.allocatable for node in part.nodes_of(cluster)))
        left = left - there
        yield replace(window, cluster=cluster, withhold=there)
