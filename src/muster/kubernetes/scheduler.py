"""`muster kube-scheduler`: watch a cluster, take turns, bind and evict.

    compile → win the lease → fill the caches → turn → carry out → wait for news → turn …

Caches are filled after the lease was won: their lists then hold all that the leader before us did. Whoever loses the
lease ends, and is started again by whatever runs it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from time import monotonic
from typing import Any

import msgspec

from muster.kubernetes.backoff import Backoff
from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Cache, Change
from muster.kubernetes.client import Client
from muster.kubernetes.clock import Clock
from muster.kubernetes.election import Election, LeadLost
from muster.kubernetes.errors import KubernetesError, NotFound
from muster.kubernetes.hands import Hands
from muster.kubernetes.kinds import NODES, PODS, Kind, T
from muster.kubernetes.objects import Pod
from muster.kubernetes.orders import Bind, Eviction, Orders, Selection
from muster.kubernetes.pools import POOLS, Pool, Status, is_asked_anew
from muster.kubernetes.sources import needed_by, optional_for
from muster.kubernetes.statuses import Statuses
from muster.kubernetes.telling import Happened, Teller
from muster.kubernetes.verdicts import Said, verdicts
from muster.kubernetes.warming import is_worth_it, warm_up
from muster.kubernetes.world import World
from muster.model.policy import Policy
from muster.model.pools import called

log = logging.getLogger(__name__)

SHORTEST_GAP_S = 0.02  # between turns: what comes meanwhile is decided together
MOST_HEARD = 1_000  # changes a turn takes in: the binds of those who came first begin before all have been read
BACKLOG, BACKLOG_GAP_S = 100, 0.2  # so many binds are under way: who came next would wait for them anyway
TELL_EVERY_S = 1.0
LOOK_AGAIN_S = 10.0  # whether a kind is served by now that was not
FINISH_S = 5.0  # for binds that are under way when told to end


class Scheduler:
    """One scheduler. `run` until `stop`."""

    def __init__(self, client: Client, election: Election, policy: Policy, identity: str) -> None:
        self._client, self._election, self._policy = client, election, policy
        self._clock = Clock()
        self._news, self._told_to_end = asyncio.Event(), asyncio.Event()
        self._heard: list[Callable[[], None]] = []  # what the next turn begins with
        self._is_untold, self._tell_at = False, 0.0
        self.world = World(policy)
        self._hands = Hands(client, self._clock.now_ms, election.is_leading, self._settled)
        self._statuses = Statuses(client, self._news.set)
        self._teller = Teller(client, self._clock.now_ms, self._hands.is_busy, identity)

    def stop(self) -> None:
        """Have `run` end: what is under way is finished, and the lease given back."""
        self._told_to_end.set()
        self._news.set()

    async def run(self) -> None:
        """Schedule until told to end; LeadLost if somebody else leads."""
        for work in (self._warm_up, self._election.win):
            if not await self._until_told_to_end(work()):
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

    async def _warm_up(self) -> None:
        """Compile before leading, not in the first turn: whoever leads meanwhile goes on, and nobody waits for us."""
        try:
            nodes, pods = await self._client.count(NODES), await self._client.count(PODS)
        except KubernetesError as err:  # whoever cannot be asked now will be asked for the lease
            log.warning("how large the cluster is was not to be found out: %s", err)
            return
        if is_worth_it(nodes, pods):
            began = monotonic()
            await in_thread(partial(warm_up, self._policy))
            log.info("ready to lead after %.1f s for the kernels", monotonic() - began)

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
        most = len(self._heard)  # at first, all that was listed: nobody is placed before we know who is there
        while not self._told_to_end.is_set():
            running.must_run()
            self._hands.must_be_well()
            if not self._election.is_leading():
                raise LeadLost("the lease was not renewed in time")
            self._news.clear()
            began = monotonic()
            heard, self._heard = self._heard[:most], self._heard[most:]
            most = MOST_HEARD
            tells = began >= self._tell_at
            # In a thread: a turn of many pods takes a while, and the lease is renewed meanwhile.
            said, pools = await asyncio.to_thread(self._turn, heard, asyncio.get_running_loop(), tells=tells)
            for member, words in said:
                self._teller.say(member, words)
            self._is_untold = not tells
            if tells:
                self._tell_at = monotonic() + TELL_EVERY_S
                self._statuses.want(pools)
            await self._quiet(began)

    def _turn(
        self, heard: Sequence[Callable[[], None]], loop: asyncio.AbstractEventLoop, *, tells: bool
    ) -> tuple[list[tuple[Member, Said]], dict[str, Status]]:
        """One turn after what was heard; and, if it is time for that, why pods wait and how pools stand."""
        for hear in heard:
            hear()
        self.world.take_turn(self._clock.now_ms(), lambda orders: loop.call_soon_threadsafe(self._carry_out, orders))
        if not tells:
            return [], {}
        return list(verdicts(self.world)), self._how_pools_stand()

    def _how_pools_stand(self) -> dict[str, Status]:
        return self.world.pools.statuses(self.world.state) if self._statuses.are_served else {}

    async def _quiet(self, last: float) -> None:
        """Until there is something to decide on or to tell; what comes shortly after is decided together with it."""
        due_ms = self._clock.now_ms() if self._heard else self.world.next_ms()
        waits_s = [] if due_ms is None else [(due_ms - self._clock.now_ms()) / 1000]
        waits_s += [self._tell_at - monotonic()] if self._is_untold else []
        try:
            async with asyncio.timeout(max(min(waits_s), 0) if waits_s else None):
                await self._news.wait()
        except TimeoutError:
            pass
        gap_s = BACKLOG_GAP_S if self._hands.binding >= BACKLOG else SHORTEST_GAP_S
        await asyncio.sleep(max(last + gap_s - monotonic(), 0))

    def _hear(self, what: Callable[[], None]) -> None:
        """Have the world told before its next turn: nobody else may touch it, since a turn may be under way."""
        self._heard.append(what)
        self._news.set()

    def _settled(self, order: Bind | Eviction | Selection, is_done: bool) -> None:
        if isinstance(order, Selection):
            if not is_done:
                self._hear(partial(self.world.surroundings.provisioning.turn_down, order.key))
        elif isinstance(order, Eviction):
            if not is_done:
                self._hear(partial(self.world.stay, order))
        elif is_done:
            note = f"assigned {'/'.join(order.key)} to {order.node}"
            if order.lender is not None:
                note += f", borrowed from pool {called(order.lender)}"
            self._teller.note(Happened(order.key, order.uid, "Scheduled", note, "Binding"))
        else:
            self._hear(partial(self.world.refuse, order, self._clock.now_ms()))

    def _carry_out(self, orders: Orders) -> None:
        self._hands.carry_out(orders)
        for eviction in orders.evictions:
            self._teller.note(Happened(eviction.key, eviction.uid, "Preempted", eviction.why, "Preempting"))

    # -- caches ----------------------------------------------------------------------------------------------

    async def _fill(self, running: _Running) -> None:
        """Have everything watched, and wait until it has been listed once."""
        needed: list[Cache[Any]] = [self._cache(*source) for source in needed_by(self.world)]
        nodes, pods = (next(it for it in needed if it.kind is kind) for kind in (NODES, PODS))
        pods.listen(self._forget_gone)
        pools = Cache(self._client, POOLS)
        pools.listen(self._hear_pool)
        running.begin(self._statuses.run(pools))
        others = (source for source in optional_for(self.world) if source.kind is not POOLS)
        optional: list[Cache[Any]] = [pools, *(self._cache(*source) for source in others)]
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

    def _hear_pool(self, change: Change[Pool]) -> None:
        """Every status that we write comes back as a change, which is nothing to take a turn for."""
        if is_asked_anew(change):
            self._hear(partial(self.world.pools.hear, change))
        self._statuses.look_again()

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


async def in_thread(work: Callable[[], None]) -> None:
    """Do it beside; whoever gives up does not wait for its end, nor does the process when it ends."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as err:
            failure.append(err)
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(done.set)

    Thread(target=run, daemon=True).start()
    await done.wait()
    if failure:
        raise failure[0]
