"""The key `race` of a job: its terms, and the clusters that it is raced over."""

from __future__ import annotations

from collections.abc import Callable

from muster.documents.fields import Fields
from muster.documents.jobs.known import Known
from muster.documents.scalars import NAME, is_name
from muster.documents.shapes import AMOUNTS, DURATION, Schema, choice, integer, said
from muster.model.fleet import Cluster
from muster.model.race import Grace, RaceSpec, Rival, Terms
from muster.model.resources import Resources

MOST_RIVALS = 100

RIVAL_KEYS: dict[str, Schema] = {
    "priority": said(integer(0, 100), "How much it is preferred. Default: the cluster's own preference."),
    **AMOUNTS,
}
RACE_KEYS: dict[str, Schema] = {
    "guard": said(DURATION, "How long a copy must run without a break to be scheduled.", default="10m"),
    "timeScale": said(DURATION, "How much longer a cluster may take for each point it is ahead.", default="1m"),
    "grace": said(
        choice(grace.value for grace in Grace), "What a deadline asks of a copy.", default=Grace.STRICT.value
    ),
    "lossTime": said(DURATION, "How long a leader may not be heard before it has dropped out.", default="15m"),
}

More = Callable[[str, Fields], None]
"""Reads what else there may be about a candidate."""


def read_race(job: Fields, known: Known, asks: Resources, more: More | None = None) -> RaceSpec | None:
    """The race of a job whose tasks ask for so much; None: it has none."""
    if not job.has("race"):
        job.get("race")
        return None
    for key in ("cluster", "clusters"):
        if job.has(key):
            job.add(key, "not allowed beside race: the candidates are race.clusters")
    fields = job.mapping("race", "race")
    default = Terms()
    terms = Terms(
        guard_ms=fields.duration("guard", default.guard_ms),
        time_scale_ms=fields.duration("timeScale", default.time_scale_ms),
        grace=fields.choice("grace", {grace.value: grace for grace in Grace}, default.grace),
        loss_ms=fields.duration("lossTime", default.loss_ms),
    )
    clusters = fields.mapping("clusters", "race.clusters")
    rivals = [_rival(clusters, name, known, asks, more) for name in clusters.given()]
    fields.close()
    if not 1 <= len(rivals) <= MOST_RIVALS:
        hint = "" if more is None else ", each with its sightings"
        job.add("race", f"clusters is missing: from 1 to {MOST_RIVALS} clusters{hint}")
    return RaceSpec(terms=terms, rivals=tuple(sorted(rivals, key=lambda rival: rival.cluster)))


def _rival(clusters: Fields, name: str, known: Known, asks: Resources, more: More | None) -> Rival:
    entry = clusters.mapping(name, "race.cluster")
    cluster = _cluster(clusters, name, known)
    priority = entry.integer("priority", cluster.preference, 0, 100)
    if more is not None:
        more(name, entry)
    amounts = Resources.of({**dict(asks.items()), **entry.task_amounts()})
    if known.holds_jobs and amounts != asks:
        clusters.add(name, "other amounts are not allowed: over clusters with agents all copies ask for the same")
    entry.close_with_amounts()
    return Rival(cluster=name, priority=priority, asks=amounts)


def _cluster(clusters: Fields, name: str, known: Known) -> Cluster:
    """The cluster of that name: opaque, unless clusters hold jobs. Where races bring clusters, one that nobody declared
    comes with this one."""
    unheard = Cluster(name=name, opaque=True)
    if not is_name(name):
        clusters.refuse_key(name, NAME)
        return unheard
    if known.clusters is None:
        return unheard
    if known.holds_jobs:
        if name not in known.transparent:
            clusters.refuse_key(name, known.listed("a cluster", known.transparent))
        return known.clusters.get(name, unheard)
    if known.races_bring_clusters:
        known.clusters.setdefault(name, unheard)
    cluster = known.clusters.get(name)
    if cluster is None:
        opaque = [other.name for other in known.clusters.values() if other.opaque]
        clusters.refuse_key(name, known.listed("an opaque cluster", opaque))
    elif not cluster.opaque:
        clusters.refuse_key(name, "an opaque cluster: jobs are raced only over clusters that show no nodes")
    return cluster or unheard
