"""What happens again to a pod is counted in one Event: by real API servers, across restarts, after they forgot it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kube import Shared, a_client, kept, run

from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.kinds import Scope
from muster.kubernetes.objects import Key
from muster.kubernetes.telling import EVENTS, Event, Happened, Teller

UID = "11111111-2222-3333-4444-555555555555"


def evicted(namespace: str, note: str = "it gives way", reason: str = "Preempted") -> Happened:
    return Happened((namespace, "p"), UID, reason, note, "Preempting")


class Told:
    """A teller, and the Events of a namespace as they are."""

    def __init__(self, teller: Teller, events: Cache[Event]) -> None:
        self.teller, self._events = teller, events

    async def counts(self, *counts: int) -> None:
        """Wait until there are Events that happened so often."""

        def are_so(there: object) -> bool:
            assert isinstance(there, dict)
            return sorted(event.count for event in there.values()) == sorted(counts)

        await self._events.until(are_so)

    @property
    def names(self) -> list[Key]:
        return list(self._events.objects)


@asynccontextmanager
async def telling(client: Client, namespace: str, name: str = "one") -> AsyncIterator[Told]:
    """A teller that knows nothing yet, until the block ends."""
    teller = Teller(client, lambda: 0, lambda: False, name)
    running = asyncio.ensure_future(teller.run())
    try:
        async with kept(Cache(client, EVENTS, Scope(namespace=namespace))) as events:
            yield Told(teller, events)
    finally:
        running.cancel()


def test_what_happens_again_is_counted_and_what_differs_is_another_event(shared: Shared, namespace: str) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client, telling(client, namespace) as told:
            told.teller.note(evicted(namespace))
            await told.counts(1)
            told.teller.note(evicted(namespace))
            await told.counts(2)
            told.teller.note(evicted(namespace, reason="Scheduled"))
            await told.counts(1, 2)
            told.teller.note(evicted(namespace))
            await told.counts(1, 3)

    run(story())


def test_what_happens_several_times_at_once_is_counted_each_time(shared: Shared, namespace: str) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client, telling(client, namespace) as told:
            for _ in range(5):
                told.teller.note(evicted(namespace))
            await told.counts(5)

    run(story())


def test_a_scheduler_that_comes_later_goes_on_counting(shared: Shared, namespace: str) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client:
            async with telling(client, namespace) as told:
                for count in (1, 2, 3):
                    told.teller.note(evicted(namespace))
                    await told.counts(count)
            async with telling(client, namespace, "two") as told:
                told.teller.note(evicted(namespace))
                await told.counts(4)

    run(story())


def test_an_event_that_the_server_forgot_begins_anew(shared: Shared, namespace: str) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client, telling(client, namespace) as told:
            for count in (1, 2):
                told.teller.note(evicted(namespace))
                await told.counts(count)
            [(_, name)] = told.names
            await client.delete(EVENTS, name, namespace)
            await told.counts()
            told.teller.note(evicted(namespace))
            await told.counts(1)

    run(story())
