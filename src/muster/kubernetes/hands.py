"""Carries out orders: binds and evictions, many at once, each until it is known what became of it.

A bind whose answer was lost is looked up before it is tried again, so a pod stays placed until the API server has it
bound or refuses it. Whoever no longer leads lets go of everything: `may_act` is asked before each request.

Of pods that are evicted together it is said that they give way before the first of them goes, in a condition as
Kubernetes' own scheduler writes it. Should we be killed in between, whoever comes next knows what was begun.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from muster.kubernetes.backoff import Backoff
from muster.kubernetes.client import STRATEGIC_PATCH, Client
from muster.kubernetes.clock import now
from muster.kubernetes.disruptions import BY_US, GIVES_WAY
from muster.kubernetes.errors import BudgetForbids, Conflict, KubernetesError, NotFound, Refused, Unreachable
from muster.kubernetes.kinds import CLAIMS, PODS
from muster.kubernetes.orders import Bind, Eviction, Orders, Selection
from muster.kubernetes.storage import SELECTED_NODE

log = logging.getLogger(__name__)

MANY, JUST_NOW_MS = 16, 250  # so many binds within so long: a backlog is being bound, turn after turn
BUDGET_S = 2.0  # between two tries of an eviction that a budget forbids


class Hands:
    """Does what turns order. `settled` is called with each order that is over, and whether it was done."""

    def __init__(
        self,
        client: Client,
        clock_ms: Callable[[], int],
        may_act: Callable[[], bool],
        settled: Callable[[Bind | Eviction | Selection, bool], None],
    ) -> None:
        self._client, self._clock_ms, self._may_act, self._settled = client, clock_ms, may_act, settled
        self._tasks: set[asyncio.Task[None]] = set()
        self._binding: dict[str, asyncio.Task[None]] = {}  # by uid
        self._bound_ms: deque[int] = deque(maxlen=MANY)  # when the last binds were over
        self._failure: BaseException | None = None

    def carry_out(self, orders: Orders) -> None:
        """Begin; it goes on by itself."""
        for bind in orders.binds:
            self._binding[bind.uid] = self._begin(self._bind(bind))
        for selection in orders.selections:
            self._begin(self._select(selection))
        if orders.evictions:
            self._begin(self._drive_out(orders.evictions))

    @property
    def binding(self) -> int:
        """How many pods wait for binds that were begun."""
        return len(self._binding)

    def is_busy(self) -> bool:
        """Whether pods wait for their binds; or many were bound just now, so that more may follow."""
        is_fast = len(self._bound_ms) == MANY and self._clock_ms() < self._bound_ms[0] + JUST_NOW_MS
        return bool(self._binding) or is_fast

    async def finish(self) -> None:
        """Wait until all that was begun is over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def let_go(self) -> None:
        """Give up whatever is under way."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()

    def must_be_well(self) -> None:
        """Raise what went wrong with an order that nobody thought of: what became of it is not known."""
        if self._failure is not None:
            raise self._failure

    # -- binds ---------------------------------------------------------------------------------------------------

    async def _bind(self, bind: Bind) -> None:
        backoff = Backoff(self._client.random)
        is_bound: bool | None = None
        try:
            while is_bound is None and self._may_act():
                is_bound = await self._try_bind(bind)
                if is_bound is None:
                    await asyncio.sleep(backoff.wait_s())
        finally:
            self._binding.pop(bind.uid, None)
            self._bound_ms.append(self._clock_ms())
        if is_bound is not None:
            self._settled(bind, is_bound)

    async def _try_bind(self, bind: Bind) -> bool | None:
        """Whether the pod is bound to its node; None: nobody knows."""
        namespace, name = bind.key
        body = {"metadata": {"name": name, "uid": bind.uid}, "target": {"kind": "Node", "name": bind.node}}
        try:
            await self._client.act(PODS, name, "binding", body, namespace)
        except (Conflict, Unreachable) as err:  # bound already, perhaps by our own request before this one
            return await self._look(bind, is_refused=isinstance(err, Conflict))
        except Refused as err:
            log.info("%s/%s was not bound to %s: %s", namespace, name, bind.node, err)
            return False
        return True

    async def _look(self, bind: Bind, *, is_refused: bool) -> bool | None:
        namespace, name = bind.key
        try:
            pod = await self._client.get(PODS, name, namespace)
        except NotFound:
            return False
        except KubernetesError:
            return None
        if pod.metadata.uid != bind.uid:
            return False
        if pod.spec.node_name:
            return pod.spec.node_name == bind.node
        return False if is_refused else None

    # -- volumes -------------------------------------------------------------------------------------------------

    async def _select(self, selection: Selection) -> None:
        """Say where a volume is to be made, until that is said; twice does no harm."""
        namespace, name = selection.key
        body = {"metadata": {"uid": selection.uid, "annotations": {SELECTED_NODE: selection.node}}}
        backoff = Backoff(self._client.random)
        while self._may_act():
            try:
                await self._client.patch(CLAIMS, name, body, namespace)
            except Refused as err:
                log.info("no volume is to be made for %s/%s on %s: %s", namespace, name, selection.node, err)
                self._settled(selection, False)
                return
            except KubernetesError:
                await asyncio.sleep(backoff.wait_s())
            else:
                self._settled(selection, True)
                return

    # -- evictions -----------------------------------------------------------------------------------------------

    async def _drive_out(self, evictions: Iterable[Eviction]) -> None:
        """What is not bound yet must not be evicted: an eviction would delete a pod that may stay in line."""
        binding = {self._binding[it.uid] for it in evictions if it.uid in self._binding}
        if binding:
            await asyncio.wait(binding)
        await asyncio.gather(*(self._say_it_gives_way(eviction) for eviction in evictions))
        for eviction in evictions:
            self._begin(self._evict(eviction))

    async def _say_it_gives_way(self, eviction: Eviction) -> None:
        backoff = Backoff(self._client.random)
        while self._may_act() and self._clock_ms() < eviction.until_ms:
            try:
                await self._client.patch(
                    PODS,
                    eviction.key[1],
                    _gives_way(eviction),
                    eviction.key[0],
                    subresource="status",
                    how=STRATEGIC_PATCH,
                )
            except Refused:  # it is gone, or another by now: the eviction will find out
                return
            except KubernetesError as err:
                log.warning("%s/%s was not told that it gives way: %s", *eviction.key, err)
                await asyncio.sleep(backoff.wait_s())
            else:
                return

    async def _evict(self, eviction: Eviction) -> None:
        backoff = Backoff(self._client.random)
        while self._may_act():
            wait_s = await self._try_evict(eviction, backoff)
            if wait_s is None:
                self._settled(eviction, True)
                return
            if self._clock_ms() + wait_s * 1000 > eviction.until_ms:
                self._settled(eviction, False)
                return
            await asyncio.sleep(wait_s)

    async def _try_evict(self, eviction: Eviction, backoff: Backoff) -> float | None:
        """None if the pod is going; else after how long to try again."""
        namespace, name = eviction.key
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": eviction.uid}},
        }
        try:
            pod = await self._client.get(PODS, name, namespace)
            if (
                pod.metadata.uid != eviction.uid
                or not pod.spec.node_name
                or pod.metadata.deletion_timestamp is not None
            ):
                return None
            await self._client.act(PODS, name, "eviction", body, namespace)
        except (NotFound, Conflict):
            return None
        except BudgetForbids:
            return BUDGET_S
        except KubernetesError as err:
            log.warning("%s/%s was not evicted: %s", namespace, name, err)
            return backoff.wait_s()
        return None


def _gives_way(eviction: Eviction) -> dict[str, object]:
    condition = {
        "type": GIVES_WAY,
        "status": "True",
        "reason": BY_US,
        "message": eviction.why,
        "lastTransitionTime": now(),
    }
    return {"metadata": {"uid": eviction.uid}, "status": {"conditions": [condition]}}
