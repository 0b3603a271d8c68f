"""Who leads: one Lease that is renewed by its holder, and taken by another once it has not been for its whole duration.

Clocks of machines are not compared: a candidate counts from when it saw the Lease change last. A leader that could
not renew stops acting well before others may begin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

import msgspec

from muster.kubernetes.client import Client
from muster.kubernetes.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import Meta, Read

log = logging.getLogger(__name__)


class LeaseSpec(Read, frozen=True):
    """Who holds it, and since when."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(Read, frozen=True):
    """A Lease of coordination.k8s.io."""

    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()


LEASES = Kind(type=Lease, plural="leases", version="v1", group="coordination.k8s.io")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long a Lease holds unrenewed, for how long of that its holder acts, and how often it is renewed."""

    holds_s: float = 15.0
    acts_s: float = 10.0
    every_s: float = 2.0

    @classmethod
    def lasting(cls, seconds: float) -> Times:
        """For a Lease that holds so long."""
        return cls(holds_s=seconds, acts_s=seconds * 2 / 3, every_s=min(seconds / 7.5, cls().every_s))


class LeadLost(KubernetesError):
    """Somebody else leads, or may."""


class Election:
    """One candidate for a Lease."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        times: Times | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._times, self._clock = times or Times(), clock
        self._seen: tuple[str, float] = ("", 0.0)  # a version of the Lease, and when it was seen first
        self._sure_until = 0.0

    def is_leading(self) -> bool:
        """Whether nobody else can lead now."""
        return self._clock() < self._sure_until

    async def win(self) -> None:
        """Wait until we lead."""
        while not await self._try():
            await asyncio.sleep(self._times.every_s)

    async def keep(self) -> None:
        """Renew until cancelled; LeadLost once we may lead no more."""
        while True:
            await asyncio.sleep(self._times.every_s)
            if not await self._try() and not self.is_leading():
                raise LeadLost(f"the lease {self._namespace}/{self._name} was not renewed in time, or is another's")

    async def give_back(self) -> None:
        """Let another lead at once."""
        if not self.is_leading():
            return
        self._sure_until = 0.0
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
            if lease.spec.holder_identity == self._identity:
                await self._write(lease, msgspec.structs.replace(lease.spec, holder_identity=""))
        except KubernetesError as err:
            log.warning("the lease %s/%s was not given back: %s", self._namespace, self._name, err)

    async def _try(self) -> bool:
        """Take the Lease, or renew it; whether it is ours. It holds from before we asked."""
        asked_at = self._clock()
        try:
            is_ours = await self._take()
        except (Conflict, AlreadyExists):
            return False
        except KubernetesError as err:
            log.warning("the lease %s/%s: %s", self._namespace, self._name, err)
            return False
        self._sure_until = asked_at + self._times.acts_s if is_ours else 0.0
        return is_ours

    async def _take(self) -> bool:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        holds = max(round(self._times.holds_s), 1)
        ours = LeaseSpec(holder_identity=self._identity, lease_duration_seconds=holds, acquire_time=now, renew_time=now)
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            await self._client.create(LEASES, _body(self._name, "", ours), self._namespace)
            return True
        if lease.spec.holder_identity == self._identity:
            await self._write(lease, msgspec.structs.replace(lease.spec, renew_time=now, lease_duration_seconds=holds))
            return True
        if lease.spec.holder_identity and not self._is_forsaken(lease):
            return False
        await self._write(lease, msgspec.structs.replace(ours, lease_transitions=lease.spec.lease_transitions + 1))
        return True

    def _is_forsaken(self, lease: Lease) -> bool:
        """Whether we have watched it for its whole duration without a change."""
        if lease.metadata.resource_version != self._seen[0]:
            self._seen = (lease.metadata.resource_version, self._clock())
        return self._clock() - self._seen[1] >= max(lease.spec.lease_duration_seconds, 1)

    async def _write(self, lease: Lease, spec: LeaseSpec) -> None:
        body = _body(self._name, lease.metadata.resource_version, spec)
        await self._client.replace(LEASES, self._name, body, self._namespace)


def _body(name: str, version: str, spec: LeaseSpec) -> dict[str, object]:
    meta = {"name": name, "resourceVersion": version} if version else {"name": name}
    return {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec}
