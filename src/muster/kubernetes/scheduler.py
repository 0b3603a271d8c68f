"""`muster kube-scheduler`: watch a cluster, take turns, bind and evict.

    win the lease → fill the caches → turn → carry out → wait for news → turn …

Caches are filled after the lease was won: their lists then hold all that the leader before us did. Whoever loses the
lease ends, and is started again by whatever runs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from time import monotonic, time
from typing import Any

import msgspec

from muster.kubernetes.backoff import Backoff
from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Cache, Change
from muster.kubernetes.client import Client
from muster.kubernetes.election import Election, LeadLost
from muster.kubernetes.errors import KubernetesError, NotFound
from muster.kubernetes.groups import NATIVE_GROUPS, PLUGIN_GROUPS, PRIORITY_CLASSES, SCHEDULING_SPECS
from muster.kubernetes.hands import Hands
from muster.kubernetes.kinds import (
    CLAIMS,
    CSI_NODES,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUMES,
    Kind,
    T,
)
from muster.kubernetes.objects import Pod
from muster.kubernetes.orders import Bind, Eviction, Orders
from muster.kubernetes.telling import Happened, Teller
from muster.kubernetes.verdicts import Said, verdicts
from muster.kubernetes.world import World
from muster.model.policy import Policy

log = logging.getLogger(__name__)

SHORTEST_GAP_S = 0.02  # between turns: what comes meanwhile is decided together
TELL_EVERY_S = 1.0
LOOK_AGAIN_S = 10.0  # whether a kind is served by now that was not
FINISH_S = 5.0  # for binds that are under way when told to end


class Scheduler:
    """One scheduler. `run` until `stop`."""

    def __init__(self, client: Client, election: Election, policy: Policy, identity: str) -> None:
        self._client, self._election = client, election
        self._now_ms = 0
        self._news, self._told_to_end = asyncio.Event(), asyncio.Event()
        self._heard: list[Callable[[], None]] = []  # what the next turn begins with
        self._is_untold, self._tell_at = False, 0.0
        self.world = World(policy)
        self._hands = Hands(client, self.now_ms, election.is_leading, self._settled)
        self._teller = Teller(client, self.now_ms, self._hands.is_binding, identity)

    def now_ms(self) -> int:
        """The time, which never goes back."""
        self._now_ms = max(self._now_ms, int(time() * 1000))
        return self._now_ms

    def stop(self) -> None:
        """Have `run` end: what is under way is finished, and the lease given back."""
        self._told_to_end.set()
        self._news.set()

    async def run(self) -> None:
        """Schedule until told to end; LeadLost if somebody else leads."""
        if not await self._until_told_to_end(self._election.win()):
            return
        log.info("leading")
        works = [self._schedule(), self._election.keep(), self._teller.run()]
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self._hands.let_go()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._election.give_back()

    async def _until_told_to_end(self, work: Coroutine[Any, Any, None]) -> bool:
        """Whether the work was done before."""
        doing, told = asyncio.ensure_future(work), asyncio.ensure_future(self._told_to_end.wait())
        try:
            await asyncio.wait({doing, told}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
            return doing.done()
        finally:
            doing.cancel()
            told.cancel()

    # -- turns -----------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        async with _Running(self._news.set) as running:
            if await self._until_told_to_end(self._fill(running)):
                await self._take_turns(running)
        try:
            async with asyncio.timeout(FINISH_S):
                await self._hands.finish()
        except TimeoutError:
            log.warning("some binds were under way for too long")

    async def _take_turns(self, running: _Running) -> None:
        while not self._told_to_end.is_set():
            running.must_run()
            self._hands.must_be_well()
            if not self._election.is_leading():
                raise LeadLost("the lease was not renewed in time")
            self._news.clear()
            began = monotonic()
            heard, self._heard = self._heard, []
            tells = began >= self._tell_at
            # In a thread: a turn of many pods takes a while, and the lease is renewed meanwhile.
            orders, said = await asyncio.to_thread(self._turn, heard, tells=tells)
            self._hands.carry_out(orders)
            self._note(orders)
            for member, words in said:
                self._teller.say(member, words)
            self._is_untold = not tells
            if tells:
                self._tell_at = monotonic() + TELL_EVERY_S
            await self._quiet(began)

    def _turn(self, heard: Sequence[Callable[[], None]], *, tells: bool) -> tuple[Orders, list[tuple[Member, Said]]]:
        """One turn after all that was heard; and, if it is time for that, why pods wait."""
        for hear in heard:
            hear()
        orders = self.world.turn(self.now_ms())
        return orders, list(verdicts(self.world)) if tells else []

    async def _quiet(self, last: float) -> None:
        """Until there is something to decide on or to tell; what comes shortly after is decided together with it."""
        due_ms = self.world.next_ms()
        waits_s = [] if due_ms is None else [(due_ms - self.now_ms()) / 1000]
        waits_s += [self._tell_at - monotonic()] if self._is_untold else []
        try:
            async with asyncio.timeout(max(min(waits_s), 0) if waits_s else None):
                await self._news.wait()
        except TimeoutError:
            pass
        await asyncio.sleep(max(last + SHORTEST_GAP_S - monotonic(), 0))

    def _hear(self, what: Callable[[], None]) -> None:
        """Have the world told before its next turn: nobody else may touch it, since a turn may be under way."""
        self._heard.append(what)
        self._news.set()

    def _settled(self, order: Bind | Eviction, is_done: bool) -> None:
        if isinstance(order, Eviction):
            if not is_done:
                self._hear(partial(self.world.stay, order))
        elif is_done:
            note = f"assigned {'/'.join(order.key)} to {order.node}"
            self._teller.note(Happened(order.key, order.uid, "Scheduled", note, "Binding"))
        else:
            self._hear(partial(self.world.refuse, order, self.now_ms()))

    def _note(self, orders: Orders) -> None:
        for eviction in orders.evictions:
            self._teller.note(Happened(eviction.key, eviction.uid, "Preempted", eviction.why, "Preempting"))

    # -- caches ----------------------------------------------------------------------------------------------

    async def _fill(self, running: _Running) -> None:
        """Have everything watched, and wait until it has been listed once."""
        world, register, around = self.world, self.world.register, self.world.surroundings
        nodes, pods = self._cache(NODES, world.hear_node), self._cache(PODS, world.hear_pod)
        pods.listen(self._forget_gone)
        needed: list[Cache[Any]] = [
            nodes,
            pods,
            self._cache(PRIORITY_CLASSES, register.hear_class),
            self._cache(NAMESPACES, around.hear_namespace),
            self._cache(CLAIMS, around.hear_claim),
            self._cache(VOLUMES, around.hear_volume),
            self._cache(STORAGE_CLASSES, around.hear_class),
            self._cache(CSI_NODES, around.hear_driver),
        ]
        optional: list[Cache[Any]] = [
            self._cache(SCHEDULING_SPECS, register.hear_spec),
            self._cache(PLUGIN_GROUPS, register.hear_plugin_group),
            self._cache(NATIVE_GROUPS, register.hear_native_group),
        ]
        for cache in optional:
            if await self._is_served(cache.kind):
                needed.append(cache)
            else:
                running.begin(self._watch_once_served(cache))
        for cache in needed:
            running.begin(cache.run())
        for cache in needed:
            await cache.filled()
        log.info("%d pods on %d nodes", len(pods.objects), len(nodes.objects))

    def _cache(self, kind: Kind[T], hear: Callable[[Change[T]], None]) -> Cache[T]:
        cache = Cache(self._client, kind)
        cache.listen(lambda change: self._hear(partial(hear, change)))
        return cache

    def _forget_gone(self, change: Change[Pod]) -> None:
        if change.after is None and change.before is not None:
            self._teller.forget(change.before)

    async def _watch_once_served(self, cache: Cache[Any]) -> None:
        while not await self._is_served(cache.kind):
            await asyncio.sleep(LOOK_AGAIN_S)
        await cache.run()

    async def _is_served(self, kind: Kind[Any]) -> bool:
        """Whether the API server has this kind; not all clusters do."""
        backoff = Backoff(self._client.random)
        found: bytes | None = None
        while found is None:
            try:
                found = await self._client.request("GET", f"/apis/{kind.api_version}")
            except NotFound:
                return False
            except KubernetesError as err:
                log.warning("%s: %s", kind.api_version, err)
                await asyncio.sleep(backoff.wait_s())
        resources = msgspec.json.decode(found, type=_Resources).resources
        return any(each.name == kind.plural for each in resources)


class _Named(msgspec.Struct):
    name: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Named] = []


class _Running:
    """Tasks that run beside for ever, and end with the block. `ended` is called should one end by itself."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = ended

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """One more."""
        self._tasks.append(asyncio.ensure_future(work))
        self._tasks[-1].add_done_callback(lambda _: self._ended())

    def must_run(self) -> None:
        """Raise what ended one of them: without its caches a scheduler is blind."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def __aenter__(self) -> _Running:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
