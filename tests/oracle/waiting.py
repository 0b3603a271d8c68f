"""Why a job waits, as a verdict: what a turn found out, put into facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.fleet import Fleet
from muster.model.jobs import Job, Reservation
from muster.model.nodes import DEVICE_MILLI
from muster.model.plan import Waiting
from muster.model.policy import Policy
from muster.model.reasons import Fact, Reason
from muster.model.resources import GPU, format_amount
from muster.model.snapshot import Held
from oracle.placement import Shortage
from oracle.victims import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a job cannot start now. `only_delays`: there is room, but it is promised to others."""

    only_delays: bool
    would_evict: tuple[Unit, ...] = ()


def blocked(job: Job, why: Blocked, shortage: Shortage) -> Waiting:
    """There is no room now."""
    facts: dict[str, Fact] = {
        "dimension": shortage.dimension,
        "short": shortage.short,
        "matching": shortage.matching,
        "placed": shortage.placed,
        "needed": shortage.needed,
        **_would_evict(why),
    }
    if shortage.dimension == "clusters":
        facts["case"] = "nothing"
    alone = job.profile.tasks_min == 1
    return Waiting(reason=Reason.NO_ROOM if alone else Reason.GANG_DOES_NOT_FIT, facts=facts)


def would_delay(job: Job, why: Blocked, promised: Iterable[str], policy: Policy) -> Waiting:
    """There is room now, but it is promised."""
    bound_ms = policy.bound_ms(job)
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


def never(job: Job, shortage: Shortage, fleet: Fleet) -> Waiting:
    """No empty cluster would do: what was asked, and the most there is on any node that suits; or some lack nodes."""
    clusters = fleet.candidates(job.profile, silent=True)
    bare = sorted(name for name in clusters if not fleet.nodes_of(name))
    if bare or not (fleet.clusters or job.profile.clusters):
        case = "cluster" if bare and len(bare) == len(clusters) else "small" if bare else "fleet"
        return Waiting(reason=Reason.NO_NODES, facts={"pool": "default", "clusters": bare, "case": case})
    request, name = shortage.group.request, shortage.dimension
    suits = [
        node
        for cluster in fleet.candidates(job.profile, silent=True)
        for node in fleet.matching(cluster, shortage.group.constraint)
    ]
    asked, most = request.resources.get(name), max((node.empty().free.get(name) for node in suits), default=0)
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
    if job.profile.needs and name == "clusters":
        facts |= {"case": "needs", "needs": list(job.profile.needs)}
    return Waiting(reason=Reason.NEVER_FITS, facts=facts)


def held(job: Held) -> Waiting:
    """Someone holds the job back, or what it comes after has not ended."""
    if job.job.held_by:
        return Waiting(reason=Reason.HELD, facts={"by": job.job.held_by})
    return Waiting(reason=Reason.DEPENDENCY, facts={"after": [need.told for need in job.waits_for]})


def _case(shortage: Shortage, is_too_much: bool) -> str:
    """Which sentence says why the job can never start."""
    if shortage.dimension in ("nodes", "clusters"):
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
