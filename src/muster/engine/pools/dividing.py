"""What each pool's turn sees of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from muster.engine.columns import Columns
from muster.engine.floor import Floor
from muster.engine.opening import Opened
from muster.model.calendar import Window
from muster.model.fleet import Fleet
from muster.model.policy import Policy, Preemption
from muster.model.pools import DEFAULT_POOL
from muster.model.snapshot import Snapshot


def divided(snapshot: Snapshot, opened: Opened) -> dict[str, Snapshot]:
    """A snapshot for each pool: its nodes, and the pending jobs that belong to it."""
    fleet, floors = snapshot.fleet, Floor.of(snapshot).parts()
    return {
        name: replace(
            snapshot,
            fleet=part,
            policy=_policy(snapshot.policy, part),
            pending=tuple(it for it in snapshot.pending if fleet.home(it.job.profile) == name),
            columns=Columns(roll=opened.roll.sight(), runs=opened.runs.sight(), floor=floors[name].sight()),
        )
        for name, part in fleet.parts.items()
    }


def _policy(policy: Policy, part: Fleet) -> Policy:
    """The policy of one pool: whom it may evict, and what the calendar withholds there."""
    if not part.preempts_in:
        policy = replace(policy, preemption=Preemption.OFF)
    if part.preempts_in != frozenset(part.clusters):
        policy = replace(policy, may_evict_all=False)
    if policy.calendar:
        policy = replace(policy, calendar=tuple(_windows(policy.calendar, part)))
    return policy


def _windows(calendar: Iterable[Window], part: Fleet) -> Iterator[Window]:
    """The windows of one pool; those without are the default pool's. Without a cluster, the first is meant."""
    for window in calendar:
        if (window.pool or DEFAULT_POOL) == part.pool.name:
            yield window if window.cluster else replace(window, cluster=next(iter(part.clusters), ""))
