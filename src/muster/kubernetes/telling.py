"""Says in the cluster what was decided: the condition PodScheduled of pods that wait, and Events.

Only what is new is written, and the latest only: whoever is bound meanwhile is told nothing more. An Event that
happens again becomes a series. Binds come first: words wait while pods wait for their binds, but not for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from muster.kubernetes.batches import Member
from muster.kubernetes.client import STRATEGIC_PATCH, Client
from muster.kubernetes.clock import now
from muster.kubernetes.errors import AlreadyExists, KubernetesError, NotFound
from muster.kubernetes.kinds import PODS, Kind
from muster.kubernetes.objects import Key, Meta, Pod, Read
from muster.kubernetes.verdicts import Said

log = logging.getLogger(__name__)

CONTROLLER = "muster.dev/kube-scheduler"
AT_ONCE = 16  # of the requests that may be on their way, so many are for words
LATE_MS, LOOK_S = 10_000, 0.1  # for so long words wait for binds; how often to look whether they still must
SAME_REASON_MS = 30_000  # before a sentence is written again whose reason is the same
NAME_LENGTH = 200  # of the pod's name in that of an Event
NOTE_LENGTH = 1024


class Series(Read, frozen=True):
    """An Event that happened again."""

    count: int = 0


class Event(Read, frozen=True):
    """An Event, of which we read only how often it happened."""

    metadata: Meta = Meta()
    series: Series | None = None

    @property
    def count(self) -> int:
        """How often."""
        return self.series.count if self.series is not None else 1


EVENTS = Kind(type=Event, plural="events", version="v1", group="events.k8s.io")


class Happened(NamedTuple):
    """An Event about a pod."""

    key: Key
    uid: str
    reason: str
    note: str
    action: str
    is_warning: bool = False


class Teller:
    """Writes conditions and Events in the order in which they were said, a few at a time; while `is_busy` with
    binds, only those that are late."""

    def __init__(self, client: Client, clock_ms: Callable[[], int], is_busy: Callable[[], bool], identity: str) -> None:
        self._client, self._clock_ms, self._is_busy, self._identity = client, clock_ms, is_busy, identity
        self._told: dict[str, tuple[Said, int]] = {}  # by uid: what was said, and when
        self._wanted: dict[str, tuple[Member, Said]] = {}
        self._line: deque[tuple[int, str | Happened]] = deque()  # since when; a uid (of a condition), or an Event
        self._writing = 0
        self._counts: dict[str, dict[str, int]] = {}  # by uid and reason: how often that happened
        self._counting: dict[str, asyncio.Lock] = {}  # by uid
        self._news = asyncio.Event()

    def say(self, member: Member, said: Said) -> None:
        """Why a pod waits, as of now."""
        now_ms = self._clock_ms()
        before = self._told.get(member.uid) or _condition(member.pod)
        if before is not None:
            last, at_ms = before
            if last == said or (last.reason == said.reason and now_ms < at_ms + SAME_REASON_MS):
                return
        self._told[member.uid] = (said, now_ms)
        if member.uid not in self._wanted:
            self._line.append((now_ms, member.uid))
        self._wanted[member.uid] = (member, said)
        self._news.set()

    def note(self, happened: Happened) -> None:
        """Something happened to a pod."""
        self._line.append((self._clock_ms(), happened))
        self._news.set()

    def forget(self, pod: Pod) -> None:
        """A pod is gone."""
        uid = pod.metadata.uid
        self._told.pop(uid, None)
        self._wanted.pop(uid, None)
        self._counts.pop(uid, None)
        self._counting.pop(uid, None)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                while self._writing < AT_ONCE and self._is_due():
                    self._writing += 1
                    tasks.create_task(self._write(self._line.popleft()[1]))
                self._news.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S if self._line else None):
                        await self._news.wait()

    def _is_due(self) -> bool:
        """Whether the next words are to be written now."""
        return bool(self._line) and (not self._is_busy() or self._clock_ms() - self._line[0][0] >= LATE_MS)

    async def _write(self, next_: str | Happened) -> None:
        try:
            if isinstance(next_, Happened):
                await self._write_event(next_)
            elif next_ in self._wanted:
                await self._write_condition(*self._wanted.pop(next_))
        finally:
            self._writing -= 1
            self._news.set()

    async def _write_condition(self, member: Member, said: Said) -> None:
        meta = member.pod.metadata
        if member.node or meta.deletion_timestamp is not None:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": said.reason,
            "message": said.message,
            "lastTransitionTime": now(),
        }
        # With its version: one that was bound meanwhile must not be told that it waits.
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": [condition]},
        }
        try:
            await self._client.patch(PODS, meta.name, body, meta.namespace, subresource="status", how=STRATEGIC_PATCH)
        except KubernetesError as err:  # it has changed: what is true of it then is said then
            log.debug("the condition of %s/%s was not written: %s", meta.namespace, meta.name, err)
            self._told.pop(meta.uid, None)
            return
        self.note(Happened(meta.key, meta.uid, said.reason, said.message, "Scheduling", is_warning=True))

    async def _write_event(self, event: Happened) -> None:
        try:
            # One after the other for each pod: the next is counted after what became of the last.
            async with self._counting.setdefault(event.uid, asyncio.Lock()):
                await self._tell(event)
        except KubernetesError as err:
            log.debug("an Event of %s/%s was not written: %s", *event.key, err)

    async def _tell(self, event: Happened) -> None:
        """Once, or counted in the series of the Event that there is; the server forgets them after an hour."""
        counts = self._counts.setdefault(event.uid, {})
        namespace, pod = event.key
        name = f"{pod[:NAME_LENGTH]}.{event.uid[:8]}.{event.reason.lower().replace('_', '-')}"
        if event.reason not in counts:
            try:
                await self._client.create(EVENTS, self._body(name, event), namespace)
            except AlreadyExists:  # by the scheduler before us
                counts[event.reason] = (await self._client.get(EVENTS, name, namespace)).count
            else:
                counts[event.reason] = 1
                return
        series = {"count": counts[event.reason] + 1, "lastObservedTime": _micro()}
        try:
            await self._client.patch(EVENTS, name, {"note": event.note[:NOTE_LENGTH], "series": series}, namespace)
        except NotFound:
            del counts[event.reason]
            await self._tell(event)
        else:
            counts[event.reason] += 1

    def _body(self, name: str, event: Happened) -> dict[str, object]:
        namespace, pod = event.key
        return {
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._identity,
            "action": event.action,
            "reason": event.reason,
            "note": event.note[:NOTE_LENGTH],
            "type": "Warning" if event.is_warning else "Normal",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": event.uid},
        }


def _condition(pod: Pod) -> tuple[Said, int] | None:
    """What its condition says already, written by whoever scheduled before us."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return Said(condition.reason, condition.message), 0
    return None


def _micro() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
