"""Writes the status of Pools: the latest only, and only where the object says something else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from muster.kubernetes.backoff import Backoff
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from muster.kubernetes.pools import POOLS, Pool, Status
from muster.model.pools import DEFAULT_NAME

log = logging.getLogger(__name__)

FINISH_S = 2.0  # for a write that is under way when told to end
EVERY_S = 0.5  # between two looks: whoever else writes them must not keep us busy


class Statuses:
    """Say what is true now by `want`; `run` sees to it that the objects say so. `begins` is called when it does."""

    def __init__(self, client: Client, begins: Callable[[], None]) -> None:
        self.are_served = False  # whether the cluster has Pools at all
        self._client, self._begins = client, begins
        self._wanted: Mapping[str, Status] = {}
        self._news = asyncio.Event()

    def want(self, statuses: Mapping[str, Status]) -> None:
        """What the status of each Pool is, by its name."""
        if statuses != self._wanted:
            self._wanted = statuses
            self._news.set()

    def look_again(self) -> None:
        """Pools were made, deleted or written by somebody else."""
        self._news.set()

    async def run(self, pools: Cache[Pool]) -> None:
        """Write until cancelled; nothing, as long as the cluster has no such kind."""
        await pools.filled()
        self.are_served = True
        self._begins()
        backoff = Backoff(self._client.random)
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await _whole(self._write(pools))
                backoff.reset()
                await asyncio.sleep(EVERY_S)
            except KubernetesError as err:
                self._news.set()
                wait_s = backoff.wait_s()
                log.warning("the status of pools was not written: %s; trying again in %.1f s", err, wait_s)
                await asyncio.sleep(wait_s)

    async def _write(self, pools: Cache[Pool]) -> None:
        wanted = self._wanted
        if DEFAULT_NAME in wanted and ("", DEFAULT_NAME) not in pools.objects:
            await self._make_default()
        for name, status in wanted.items():
            there = pools.objects.get(("", name))
            if there is None or there.status == status:
                continue
            # By its uid: one that was deleted and made again must not get the status of the one before.
            body = {"metadata": {"uid": there.metadata.uid}, "status": status}
            try:
                await self._client.patch(POOLS, name, body, subresource="status")
            except (NotFound, Conflict) as err:
                log.debug("the status of pool %s was not written: %s", name, err)

    async def _make_default(self) -> None:
        body = {"apiVersion": POOLS.api_version, "kind": "Pool", "metadata": {"name": DEFAULT_NAME}, "spec": {}}
        try:
            await self._client.create(POOLS, body)
        except AlreadyExists:
            return


async def _whole(work: Coroutine[Any, Any, None]) -> None:
    """Work that is finished even if its caller is told to end meanwhile: a request that is broken off half way leaves
    a connection that takes its time to close."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task}, timeout=FINISH_S)
        if not task.cancel():
            task.exception()
        raise
