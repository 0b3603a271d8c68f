"""Who may still have a reservation, and the best there is (design.md 4.5)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from muster.engine.columns.queued_jobs import Roll
from muster.engine.ends import Rights
from muster.engine.finder import Finder
from muster.engine.ledger import Ledger
from muster.engine.victims import Claims
from muster.model.jobs import NEVER_MS, Job, Reservation
from muster.model.policy import Preemption
from muster.model.resources import CPU, GPU
from muster.model.snapshot import Snapshot


class Slots:
    """The reservations of one pool's turn: few for each kind of job in each cluster, and so many in all."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, roll: Roll, finder: Finder) -> None:
        self._policy, self._fleet, self._now_ms = snapshot.policy, snapshot.fleet, snapshot.now_ms
        self._ledger, self._roll, self._finder = ledger, roll, finder

    def by_kind(self) -> list[int]:
        """Whether CPU and GPU jobs may still have a reservation in some cluster."""
        promised, policy, kinds = self._finder.horizon.promised.values(), self._policy, [0, 0]
        if len(promised) < policy.reservations_in_all:
            for kind in (False, True):
                taken = [it.reservation.cluster for it in promised if it.job.profile.asks_gpu == kind]
                kinds[kind] = int(any(taken.count(name) < policy.reservations for name in self._fleet.clusters))
        return kinds

    def soonest(self, job: Job, before_ms: int = NEVER_MS) -> Reservation | None:
        """The best reservation the job may take: the soonest start, then the most preferred cluster."""
        clusters = self.free_for(job)
        if not clusters:
            return None

        @cache
        def rights() -> Rights:
            claims = Claims(job, lambda: GPU if job.profile.asks_gpu else CPU, self._ledger, self._now_ms, self._policy)
            return claims.rights(self._roll)

        preempts_in = self._fleet.preempts_in if self._policy.preemption is Preemption.ON else ()
        found = [
            self._finder.horizon.soonest(job, cluster, rights if cluster in preempts_in else _none, before_ms)
            for cluster in clusters
        ]
        # min keeps the first of equals, and the most preferred cluster comes first
        best = min((it for it in found if it is not None), key=lambda it: it.start_ms, default=None)
        return best if best is None or self._is_sure(best.cluster) else replace(best, is_firm=False)

    def free_for(self, job: Job) -> list[str]:
        """Clusters where the job's kind (GPU or CPU) may still have a reservation; one per profile, or for everyone."""
        binding = self._finder.horizon.binding(job)
        promised = [(it.job.profile, it.reservation.cluster) for it in binding]
        if len(promised) >= self._policy.reservations_in_all:
            return []
        if not self._policy.is_conservative and any(profile == job.profile for profile, _ in promised):
            return []
        kind = job.profile.asks_gpu
        taken = [cluster for profile, cluster in promised if profile.asks_gpu == kind]
        return [name for name in self._fleet.candidates(job.profile) if taken.count(name) < self._policy.reservations]

    def _is_sure(self, cluster: str) -> bool:
        """Whether no promise in the cluster rests on guesses."""
        reservations = [it.reservation for it in self._finder.horizon.promised.values()]
        return all(it.is_firm for it in reservations if it.cluster == cluster)


def _none() -> None:
    """Nobody has any right there."""
