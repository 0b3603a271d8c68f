"""What profiles ask of the nodes, in cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.columns.fleet_index import Grounds, cells_of
from muster.engine.kernels.placing import Cells
from muster.model.jobs import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """The groups and candidate clusters of profiles, one after the other; `most` tasks of one job at its min."""

    first_group: Cells
    groups: Cells
    widths: Cells
    first_cluster: Cells
    clusters: Cells
    most: int


def asks_of(grounds: Grounds, profiles: Sequence[Profile], *, listed: bool) -> Asks:
    """What the profiles ask for, in the numbers of the grounds."""
    first_group, first_cluster = [0], [0]
    groups: list[int] = []
    widths: list[int] = []
    clusters: list[int] = []
    for profile in profiles:
        shape = grounds.shape_of(profile)
        groups += shape.groups
        widths += shape.least
        clusters += [grounds.cluster_number[name] for name in shape.clusters]
        first_group.append(len(groups))
        first_cluster.append(len(clusters))
    parts = [cells_of(part, listed=listed) for part in (first_group, groups, widths, first_cluster, clusters)]
    return Asks(
        first_group=parts[0],
        groups=parts[1],
        widths=parts[2],
        first_cluster=parts[3],
        clusters=parts[4],
        most=max((profile.tasks_min for profile in profiles), default=1),
    )
