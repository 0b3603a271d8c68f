"""Which tasks are typical: those that the policy names, or else those that run and wait now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from muster.engine.columns import running_jobs as runs
from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.running_jobs import Runs
from muster.engine.measure import Measure, told
from muster.model.jobs import Profile
from muster.model.labels import Constraint
from muster.model.nodes import Request
from muster.model.placement import MOST_LEARNED, Placement, PlacementRule, Typical


def measure_of(placement: Placement, roll: Roll, present: Runs) -> Measure | None:
    """What a policy asks for; None where the tightest fit decides."""
    if placement.rule is PlacementRule.TIGHTEST:
        return None
    if not placement.rule.knows_typical:
        return Measure(rule=placement.rule, seed=placement.seed)
    return told(placement, placement.typical or learned(_counted(roll, present)))


def learned(jobs: Iterable[tuple[Profile, int]]) -> tuple[Typical, ...]:
    """The most frequent kinds of tasks among jobs, so many of each profile, at their min."""
    counts: dict[tuple[Request, Constraint], int] = {}
    for profile, many in jobs:
        for group in profile.groups:
            kind = (group.request, group.constraint)
            counts[kind] = counts.get(kind, 0) + many * group.min
    typical = [
        Typical(request=request, constraint=where, count=many) for (request, where), many in counts.items() if many
    ]
    return tuple(folded(sorted(typical, key=lambda it: it.order)))


def folded(typical: Sequence[Typical]) -> list[Typical]:
    """The most frequent kinds, which come first. A rarer one counts as the first that may go to the same nodes and asks
    for as many devices; if there is none, it is told apart as well, lest its wish be forgotten."""
    kept = list(typical[:MOST_LEARNED])
    place = {(it.constraint, it.request.gpus): number for number, it in reversed(list(enumerate(kept)))}
    for it in typical[MOST_LEARNED:]:
        number = place.setdefault((it.constraint, it.request.gpus), len(kept))
        if number == len(kept):
            kept.append(it)
        else:
            kept[number] = replace(kept[number], count=kept[number].count + it.count)
    return kept


def _counted(roll: Roll, present: Runs) -> Iterable[tuple[Profile, int]]:
    """How many queued and running jobs there are of each profile."""
    profiles = roll.profiles.names
    counts = np.zeros(len(profiles), np.int64)
    waiting = roll.waiting_with()[: len(profiles)]
    counts[: len(waiting)] += waiting
    cells = present.table.cells[:, : present.table.size]
    counts += np.bincount(cells[runs.PROFILE][cells[runs.MANY] > 0], minlength=len(profiles))
    return ((profiles[number], int(counts[number])) for number in np.flatnonzero(counts))
