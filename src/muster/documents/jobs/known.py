"""What a job may name: the queues, clusters, priority classes and levels of the world that it is for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from muster.model.fleet import Cluster
from muster.model.names import name_key
from muster.model.width import LEVELS

DEFAULT_QUEUE = "default"
DEFAULT_CLASS = "default"

_LISTED = 20  # names that a problem lists at most


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What there is. `queues` or `clusters` None: any that a job names.

    `where` is what problems call it. `races_bring_clusters`: one that only a race names is there, and opaque.
    `holds_jobs`: its clusters can hold a job unstarted, so that a race over them is decided when the job is admitted
    (design.md 4.7): its clusters are candidates like any others.
    """

    queues: Collection[str] | None = None
    clusters: dict[str, Cluster] | None = None
    classes: Mapping[str, int] = field(default_factory=lambda: {DEFAULT_CLASS: 0})
    levels: Mapping[str, int] = field(default_factory=lambda: LEVELS)
    cores_per_gpu: int = 0
    resize_cost_ms: int = 0
    where: str = "this file"
    races_bring_clusters: bool = False
    holds_jobs: bool = False

    def listed(self, what: str, names: Collection[str]) -> str:
        """What is allowed where a name of this world belongs."""
        return listed(what, names, self.where)

    @property
    def transparent(self) -> dict[str, Cluster]:
        """The clusters that show their nodes: where jobs are placed."""
        return {name: cluster for name, cluster in (self.clusters or {}).items() if not cluster.opaque}

    def placeable(self) -> str:
        """What is allowed where a cluster with nodes belongs."""
        transparent = self.transparent
        hint = "" if len(transparent) == len(self.clusters or {}) else " (opaque ones show no nodes: race over them)"
        return self.listed("a cluster", transparent) + hint


def listed(what: str, names: Collection[str], where: str = "this file") -> str:
    """What is allowed where a name belongs: the names there are, when they are few."""
    if len(names) > _LISTED:
        return f"{what} of {where}, which has {len(names)}"
    return f"{what} of {where}: {', '.join(sorted(names, key=name_key)) or 'it has none'}"
