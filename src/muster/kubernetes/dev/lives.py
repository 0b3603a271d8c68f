"""The life of one pod on a hollow node: what a kubelet would report of it, and when.

Init containers run one after the other, then all others beside each other; sidecars run until those have ended. Who
exits is restarted as the pod's policy says, a little later each time. A pod that is deleted gets its grace, and is then
removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from muster.kubernetes.backoff import Backoff
from muster.kubernetes.client import STRATEGIC_PATCH, Client
from muster.kubernetes.clock import now
from muster.kubernetes.dev.courses import Course, course_of
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.errors import Busy, Conflict, KubernetesError, NotFound, Refused, Unreachable
from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import Meta

log = logging.getLogger(__name__)

TERMINATED = 143  # ended by TERM, as a shell counts
RESTART_S, MOST_RESTART_S = 1.0, 60.0


class _Read(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    pass


class HollowContainer(_Read, frozen=True):
    """A container, of which only its command matters."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    restart_policy: str = ""


class HollowPodSpec(_Read, frozen=True):
    """What a kubelet must know."""

    node_name: str = ""
    restart_policy: str = "Always"
    containers: tuple[HollowContainer, ...] = ()
    init_containers: tuple[HollowContainer, ...] = ()
    active_deadline_seconds: int | None = None


class HollowPodStatus(_Read, frozen=True):
    """How it is."""

    phase: str = ""


class HollowPod(_Read, frozen=True):
    """A pod as a hollow kubelet sees it."""

    metadata: Meta = Meta()
    spec: HollowPodSpec = HollowPodSpec()
    status: HollowPodStatus = HollowPodStatus()


HOLLOW_PODS = Kind(type=HollowPod, plural="pods", version="v1")


class _Ran:
    """A container: how it is now, and how often it was started again."""

    def __init__(self, container: HollowContainer) -> None:
        self.container = container
        self.state: dict[str, object] = {"waiting": {"reason": "PodInitializing"}}
        self.restarts = 0
        self.began = ""
        self.code: int | None = None

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    def begin(self) -> None:
        self.began, self.code = now(), None
        self.state = {"running": {"startedAt": self.began}}

    def end(self, code: int) -> None:
        self.code = code
        told = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now()}
        self.state = {"terminated": {**told, "startedAt": self.began or now()}}

    def crashed(self) -> None:
        self.restarts += 1
        self.state = {"waiting": {"reason": "CrashLoopBackOff"}}

    def status(self, *, is_ready: bool) -> dict[str, object]:
        """As a pod's status tells it. What it is not any more is said too: patches are merged."""
        unset = {name: None for name in ("waiting", "running", "terminated") if name not in self.state}
        return {
            "name": self.container.name,
            "image": self.container.image,
            "imageID": "",
            "ready": is_ready,
            "started": self.is_running,
            "restartCount": self.restarts,
            "state": {**self.state, **unset},
        }


class Life:
    """One pod from when it is seen on its node until it is removed."""

    def __init__(
        self, client: Client, pod: HollowPod, hollow: Hollow, address: str, speaks: Callable[[], Awaitable[None]]
    ) -> None:
        self._client, self._pod, self._hollow, self._address = client, pod, hollow, address
        self._speaks = speaks  # waits while the node is silent
        self._policy = pod.spec.restart_policy
        self._early = [_Ran(each) for each in pod.spec.init_containers]
        self._main = [_Ran(each) for each in pod.spec.containers]
        self._began = now()
        self._is_ending = pod.metadata.deletion_timestamp is not None
        self._task = asyncio.ensure_future(self._stop() if self._is_ending else self._run())

    def told(self, pod: HollowPod) -> None:
        """The pod is otherwise now. Only that it must go matters."""
        self._pod = pod
        if pod.metadata.deletion_timestamp is not None and not self._is_ending:
            self._is_ending = True
            self._task.cancel()
            self._task = asyncio.ensure_future(self._stop())

    def end(self) -> None:
        """The pod is gone."""
        self._task.cancel()

    # -- what happens ----------------------------------------------------------------------------------------

    async def _run(self) -> None:
        if self._pod.status.phase in ("Succeeded", "Failed"):
            return
        await self._speaks()
        await asyncio.sleep(self._hollow.start_s)
        try:
            async with asyncio.timeout(self._pod.spec.active_deadline_seconds):
                fine = await self._initialise()
                if fine:
                    await self._run_main()
        except TimeoutError:
            self._end_all(137)
            await self._tell("Failed", reason="DeadlineExceeded")
            return
        self._end_all(0, only_sidecars=True)
        failed = not fine or any(ran.code for ran in self._main)
        await self._tell("Failed" if failed else "Succeeded")

    async def _initialise(self) -> bool:
        """Run those that come first; whether the others may run."""
        for ran in self._early:
            if ran.container.restart_policy == "Always":
                ran.begin()
            elif not await self._run_one(ran, Course(0.0, 0), "Never" if self._policy == "Never" else "OnFailure"):
                return False
        return True

    async def _run_main(self) -> None:
        otherwise = Course(self._hollow.run_s, self._hollow.exit_code)
        for ran in self._main:
            ran.begin()
        await self._tell("Running")
        await asyncio.gather(*(self._run_one(ran, otherwise, self._policy, has_begun=True) for ran in self._main))

    async def _run_one(self, ran: _Ran, otherwise: Course, policy: str, *, has_begun: bool = False) -> bool:
        """Run a container until it has ended for good; whether it ended well."""
        course = course_of((*ran.container.command, *ran.container.args), otherwise)
        pause = Backoff(self._client.random, first_s=RESTART_S, most_s=MOST_RESTART_S)
        if not has_begun:
            ran.begin()
        while True:
            await (asyncio.sleep(course.run_s) if course.run_s is not None else asyncio.Event().wait())
            ran.end(course.exit_code)
            if policy == "Never" or (policy == "OnFailure" and course.exit_code == 0):
                return course.exit_code == 0
            ran.crashed()
            await self._tell()
            await asyncio.sleep(pause.wait_s())
            ran.begin()
            await self._tell()

    async def _stop(self) -> None:
        """It has been deleted: its containers are told to end, and have as long as its grace."""
        grace_s = self._pod.metadata.deletion_grace_period_seconds or 0
        if any(ran.is_running for ran in self._main):
            await asyncio.sleep(min(self._hollow.stop_s, grace_s))
            self._end_all(TERMINATED if self._hollow.stop_s <= grace_s else 137)
            await self._tell("Failed")
        await self._remove()

    def _end_all(self, code: int, *, only_sidecars: bool = False) -> None:
        for ran in self._early if only_sidecars else (*self._early, *self._main):
            if ran.is_running:
                ran.end(code)

    # -- what is told ----------------------------------------------------------------------------------------

    async def _tell(self, phase: str = "", *, reason: str = "") -> None:
        phase = phase or ("Running" if any(ran.began for ran in self._main) else "Pending")
        status: dict[str, object] = {
            "phase": phase,
            "hostIP": "127.0.0.1",
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "startTime": self._began,
            "conditions": self._conditions(phase),
            "containerStatuses": [ran.status(is_ready=ran.is_running) for ran in self._main],
        }
        if self._early:
            status["initContainerStatuses"] = [
                ran.status(is_ready=ran.is_running or ran.code == 0) for ran in self._early
            ]
        if reason:
            status["reason"] = reason
        meta = self._pod.metadata
        body = {"metadata": {"uid": meta.uid}, "status": status}

        async def send() -> None:
            await self._client.patch(
                HOLLOW_PODS, meta.name, body, meta.namespace, subresource="status", how=STRATEGIC_PATCH
            )

        await self._surely(send)

    def _conditions(self, phase: str) -> list[dict[str, str]]:
        is_ready = phase == "Running" and all(ran.is_running for ran in self._main)
        reason = {"reason": "PodCompleted"} if phase == "Succeeded" else {"reason": "PodFailed"}
        since = {"lastTransitionTime": now()}
        ready: dict[str, str] = {"status": "True", "reason": ""} if is_ready else {"status": "False", **reason}
        begun = any(ran.began for ran in self._main)
        return [
            {"type": "Initialized", "status": "True" if begun else "False", **since},
            {"type": "ContainersReady", **ready, **since},
            {"type": "Ready", **ready, **since},
        ]

    async def _remove(self) -> None:
        meta = self._pod.metadata

        async def send() -> None:
            await self._client.delete(HOLLOW_PODS, meta.name, meta.namespace, uid=meta.uid, grace_s=0)

        await self._surely(send)

    async def _surely(self, send: Callable[[], Awaitable[None]]) -> None:
        """Until it is done, or the pod is gone. All that is told here can be told twice."""
        backoff = Backoff(self._client.random)
        while True:
            await self._speaks()
            try:
                with suppress(NotFound, Conflict):
                    await send()
                return
            except (Unreachable, Busy) as err:
                await asyncio.sleep(backoff.wait_s())
                log.info("%s: %s; again", "/".join(self._pod.metadata.key), err)
            except Refused as err:
                log.error("%s cannot be told of: %s", "/".join(self._pod.metadata.key), err)
                if err.status.code < 500:
                    return
                await asyncio.sleep(backoff.wait_s())
            except KubernetesError as err:
                log.error("%s: %s", "/".join(self._pod.metadata.key), err)
                await asyncio.sleep(backoff.wait_s())
