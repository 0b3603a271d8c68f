"""Why a job waits, as a verdict: what a turn found out, put into facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from muster.engine.placement import CLUSTERS, NODES, Shortage
from muster.engine.victims import Unit
from muster.model.fleet import Fleet
from muster.model.jobs import Profile, Reservation
from muster.model.nodes import DEVICE_MILLI, NO_POD_LIMIT, Node
from muster.model.plan import Waiting
from muster.model.pools import called
from muster.model.reasons import Fact, Reason
from muster.model.resources import GPU, PODS, format_amount
from muster.model.snapshot import Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a job cannot start now. `only_delays`: there is room, but it is promised to others."""

    only_delays: bool
    would_evict: tuple[Unit, ...] = ()


ShortageOf = Callable[[Profile], Shortage]


def blocked(profile: Profile, why: Blocked, shortage: Shortage, whole: Fleet) -> Waiting:
    """There is no room now; or its pool has no nodes, and there is none to borrow."""
    if whole.is_bare(profile):
        return _no_nodes(profile, whole, "lent")
    facts: dict[str, Fact] = {
        "dimension": shortage.dimension,
        "short": shortage.short,
        "matching": shortage.matching,
        "placed": shortage.placed,
        "needed": shortage.needed,
        **_would_evict(why),
    }
    if shortage.dimension == CLUSTERS:
        facts["case"] = "nothing"
    alone = profile.tasks_min == 1
    return Waiting(reason=Reason.NO_ROOM if alone else Reason.GANG_DOES_NOT_FIT, facts=facts)


def would_delay(bound_ms: int | None, why: Blocked, promised: Iterable[str]) -> Waiting:
    """There is room now, but it is promised, and the job may be in the way for so long."""
    runs = None if bound_ms is None else bound_ms / 1000
    return Waiting(reason=Reason.WOULD_DELAY, facts={"reserved": sorted(promised), "runs": runs, **_would_evict(why)})


def reserved(reservation: Reservation, why: Blocked, shortage: Shortage | None) -> Waiting:
    """There is no room now, or it is promised, but some is kept for later."""
    facts: dict[str, Fact] = {
        "cluster": reservation.cluster,
        "start": reservation.start_ms / 1000,
        "nodes": sorted({task.node for task in reservation.tasks}),
        "assumed": not reservation.is_firm,
        "dimension": "promised" if shortage is None else shortage.dimension,
        **_would_evict(why),
    }
    return Waiting(reason=Reason.RESERVED, facts=facts, estimate_ms=reservation.start_ms)


def _no_nodes(profile: Profile, whole: Fleet, case: str = "") -> Waiting:
    """Clusters that it may go to have no nodes for it, which may yet come."""
    if not whole.is_bare(profile):
        case = "small" if whole.clusters else "fleet"
    elif not whole.pools:
        case = "cluster"
    clusters, pool = sorted(whole.without_nodes(profile)), called(whole.home(profile))
    return Waiting(reason=Reason.NO_NODES, facts={"pool": pool, "clusters": clusters, "case": case})


def lacks_nodes(profile: Profile, whole: Fleet) -> bool:
    """Whether a job that fits no empty cluster may fit one that has no nodes yet."""
    return bool(whole.without_nodes(profile)) or not (whole.clusters or profile.clusters)


def never(profile: Profile, shortage: Shortage, fleet: Fleet, whole: Fleet) -> Waiting:
    """No empty cluster would do: what was asked, and the most there is on any node that suits."""
    if lacks_nodes(profile, whole):
        return _no_nodes(profile, whole)
    request, name = shortage.group.request, shortage.dimension
    suits = [
        node
        for cluster in fleet.candidates(profile, silent=True)
        for node in fleet.matching(cluster, shortage.group.constraint)
    ]
    asked, most = request.resources.get(name), max((_on_empty(node, name) for node in suits), default=0)
    is_fraction = name == GPU and request.gpu_milli < DEVICE_MILLI
    facts: dict[str, Fact] = {
        "dimension": name,
        "asked": f"{request.gpus} x {request.gpu_milli}m" if is_fraction else format_amount(name, asked),
        "most": format_amount(name, most),
        "group": shortage.group.name,
        "placed": shortage.placed,
        "needed": shortage.needed,
        "matching": len(suits),
        "case": _case(shortage, asked > most),
    }
    if profile.needs and name == "clusters":
        facts |= {"case": "needs", "needs": list(profile.needs)}
    return Waiting(reason=Reason.NEVER_FITS, facts=facts)


def with_warning(verdict: Waiting, profile: Profile, whole: Fleet) -> Waiting:
    """The verdict; it says so if the job names a pool that none of its clusters has (design.md 5.1)."""
    if not profile.pool or whole.home(profile) == profile.pool:
        return verdict
    return replace(verdict, facts={**verdict.facts, "unknownPool": profile.pool})


def _on_empty(node: Node, name: str) -> int:
    """How much of a resource there is on the node when it is empty."""
    amount = node.allocatable.get(name)
    return NO_POD_LIMIT if name == PODS and not amount else amount


def held(job: Held) -> Waiting:
    """Someone holds it back; or what it comes after has not ended."""
    if job.job.held_by:
        return Waiting(reason=Reason.HELD, facts={"by": job.job.held_by})
    return Waiting(reason=Reason.DEPENDENCY, facts={"after": [need.told for need in job.waits_for]})


def _case(shortage: Shortage, is_too_much: bool) -> str:
    """Which sentence says why the job can never start."""
    if shortage.dimension in (NODES, CLUSTERS):
        return "nothing"
    if shortage.dimension in ("nodeSelector", "affinity", "taint"):
        return "refused"
    if shortage.dimension == "topology":
        return "topology"
    return "amount" if is_too_much else "count"


def _would_evict(why: Blocked) -> dict[str, Fact]:
    """What preemption would do if it were not on trial only."""
    names = sorted({unit.run.job.id for unit in why.would_evict})
    return {"wouldEvict": names} if names else {}
