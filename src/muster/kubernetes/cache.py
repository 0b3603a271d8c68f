"""Everything there is of a kind, as the API server last told, kept by a list and a watch.

List page by page, then watch from the version of the list. A watch that ends, for whatever reason, is taken up again
where it was; bookmarks keep that place fresh when nothing of ours happens. If the server has forgotten that version,
list again and compare: who listens hears exactly what became different meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic

import msgspec

from muster.kubernetes.answers import Told
from muster.kubernetes.backoff import Backoff
from muster.kubernetes.client import PAGE, Client
from muster.kubernetes.errors import Expired, KubernetesError, Refused
from muster.kubernetes.kinds import EVERYTHING, Kind, Scope, T
from muster.kubernetes.objects import Key

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What became of one object: it appeared (no `before`), changed, or went (no `after`).

    An object that was deleted and made again under its name while nobody watched is two changes: it has another uid.
    """

    before: T | None
    after: T | None


def keep(there: dict[Key, T], change: Change[T]) -> Key:
    """Have a dict hold what a change says, for those who need no more than that; whose change it was."""
    one = change.after or change.before
    assert one is not None
    there.pop(one.metadata.key, None)
    if change.after is not None:
        there[one.metadata.key] = change.after
    return one.metadata.key


Listener = Callable[[Change[T]], None]


class Cache(Generic[T]):
    """The objects of a kind. `run()` keeps it true; `objects` is what it holds; listeners are called as it changes."""

    def __init__(self, client: Client, kind: Kind[T], scope: Scope = EVERYTHING, *, page: int = PAGE) -> None:
        self.kind = kind
        self.lists = 0  # how often everything had to be listed
        self.watches = 0  # how often a watch was begun
        self.version = ""  # up to which it has been told everything
        self._client, self._scope, self._page = client, scope, page
        self._objects: dict[Key, T] = {}
        self._listeners: list[Listener[T]] = []
        self._news = asyncio.Event()
        self._is_filled = asyncio.Event()

    @property
    def objects(self) -> Mapping[Key, T]:
        """What there is, by namespace and name. Seen live, not to be changed."""
        return MappingProxyType(self._objects)

    def listen(self, listener: Listener[T]) -> None:
        """Call `listener` with each change from now on, in order. It must be quick and must not raise."""
        self._listeners.append(listener)

    async def filled(self) -> None:
        """Wait until everything has been listed once."""
        await self._is_filled.wait()

    async def until(self, holds: Callable[[Mapping[Key, T]], bool]) -> None:
        """Wait until something holds of the objects. It is asked again after each piece of news."""
        while not holds(self._objects):
            await self._news.wait()

    async def run(self) -> None:
        """Keep it true until cancelled. Trouble is waited out, longer each time; meanwhile it holds what it held."""
        backoff = Backoff(self._client.random)
        while True:
            try:
                if not self.version:
                    await self._list()
                    backoff.reset()
                if not await self._watch(backoff):  # somebody ends our watches at once: do not ask in a circle
                    await asyncio.sleep(backoff.wait_s())
            except Expired as err:
                log.info("%s: listing again: %s", self.kind.plural, err)
                self.version = ""
                await asyncio.sleep(backoff.wait_s(err.wait_s))
            except (KubernetesError, msgspec.MsgspecError) as err:
                wait_s = backoff.wait_s(err.wait_s if isinstance(err, Refused) else 0.0)
                log.warning("%s: %s; trying again in %.1f s", self.kind.plural, err, wait_s)
                await asyncio.sleep(wait_s)

    async def _list(self) -> None:
        self.lists += 1
        found: dict[Key, T] = {}
        version = ""
        async for page in self._client.pages(self.kind, self._scope, size=self._page):
            found.update((each.metadata.key, each) for each in page.items)
            version = page.version
        self._take(found)
        self.version = version
        self._is_filled.set()
        self._wake()

    def _take(self, found: dict[Key, T]) -> None:
        """Everything there is now: tell what is different from before, what is gone first."""
        for key in [key for key in self._objects if key not in found]:
            self._change(key, None)
        for key, after in found.items():
            before = self._objects.get(key)
            if before is not None and before.metadata.uid != after.metadata.uid:
                self._change(key, None)
            if before is None or before.metadata.resource_version != after.metadata.resource_version:
                self._change(key, after)

    async def _watch(self, backoff: Backoff) -> bool:
        """Hear what happens until the server ends the watch; whether it said anything."""
        self.watches += 1
        has_heard = False
        async for heard in self._client.watch(self.kind, self.version, self._scope):
            for told in heard.told:
                self._hear(told)
            self.version = heard.version
            has_heard = True
            backoff.reset()
            self._wake()
        return has_heard

    def _hear(self, told: Told[T]) -> None:
        key = told.object.metadata.key
        self._change(key, None if told.is_gone else told.object)

    def _change(self, key: Key, after: T | None) -> None:
        before = self._objects.pop(key, None) if after is None else self._objects.get(key)
        if after is not None:
            self._objects[key] = after
        elif before is None:  # told twice
            return
        change = Change(before, after)
        for listener in self._listeners:
            listener(change)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
