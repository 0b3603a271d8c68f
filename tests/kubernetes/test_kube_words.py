"""Words wait for binds, and not for ever."""

from __future__ import annotations

import asyncio

from kube import Shared, a_client, kept, run

from muster.kubernetes.cache import Cache
from muster.kubernetes.kinds import Scope
from muster.kubernetes.telling import EVENTS, LATE_MS, Happened, Teller


def test_events_wait_while_pods_are_being_bound_unless_they_are_late(shared: Shared, namespace: str) -> None:
    async def story() -> list[set[str]]:
        now_ms, is_binding, seen = 0, True, []
        async with a_client(shared.access) as client, kept(Cache(client, EVENTS, Scope(namespace=namespace))) as events:
            teller = Teller(client, lambda: now_ms, lambda: is_binding, "test")
            running = asyncio.ensure_future(teller.run())

            async def told(count: int) -> None:
                await events.until(lambda there: len(there) >= count)
                there = await client.list(EVENTS, Scope(namespace=namespace))
                seen.append({event.metadata.name.partition(".")[0] for event in there})

            teller.note(_bound(namespace, "early"))
            now_ms = LATE_MS - 1
            teller.note(_bound(namespace, "after"))
            now_ms = LATE_MS
            await told(1)
            is_binding = False
            await told(2)
            running.cancel()
        return seen

    assert run(story()) == [{"early"}, {"early", "after"}]


def _bound(namespace: str, pod: str) -> Happened:
    return Happened((namespace, pod), f"uid-of-{pod}", "Scheduled", f"assigned {namespace}/{pod} to node-0", "Binding")
