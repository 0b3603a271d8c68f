"""`muster.AsyncClient`: what `muster.Client` does, under asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx2

from muster.sdk import asking, operating, shapes
from muster.sdk.asking import Ask
from muster.sdk.client import PATIENCE_S, TIMEOUT_S
from muster.sdk.contexts import Context, Said, is_local, meant
from muster.sdk.errors import error_of
from muster.sdk.events import SILENT_FOR_S, Following
from muster.sdk.operating import KEEP, Selected
from muster.sdk.polling import Polling
from muster.sdk.retrying import FIRST_PAUSE_S, Again, BrokenOff, Patience

T = TypeVar("T")


class AsyncClient:
    """A connection to a server. Without arguments, to the one that `muster` on the command line asks too.

    `patience_s`: for how long something is asked again when the server cannot be reached or is too busy. One client may
    be used by several tasks of one event loop.
    """

    def __init__(
        self,
        server: str | Context | None = None,
        *,
        token: str | None = None,
        context: str | None = None,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        said = Said(token=token or "", context=context or "")
        to = server if isinstance(server, Context) else meant(replace(said, server=server or ""))
        self.server = to.server
        self._patience_s = patience_s
        headers = {"Authorization": f"Bearer {to.token}"} if to.token else {}
        # What is on this machine is never asked through a proxy.
        self._http = httpx2.AsyncClient(
            base_url=to.server, headers=headers, timeout=timeout_s, trust_env=not is_local(to.server)
        )

    async def aclose(self) -> None:
        """Let go of the connection."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # -- carrying out --------------------------------------------------------------------------------------

    async def do(self, ask: Ask[T]) -> T:
        """The answer to a question of `muster.sdk.asking`."""
        return ask.answer(await self.fetch(ask))

    async def fetch(self, ask: Ask[Any]) -> bytes:
        """The answer as it was sent: JSON."""
        patience = Patience(self.server, self._patience_s)
        while True:
            try:
                answer = await self._http.send(self._request(ask))
            except httpx2.TransportError as err:
                pause_s: float | None = patience.after_trouble(ask, err)
            else:
                if answer.is_success:
                    return answer.content
                pause_s = patience.after_answer(ask, answer.status_code, answer.headers.get("Retry-After"))
                if pause_s is None:
                    raise error_of(answer.status_code, answer.content)
            await asyncio.sleep(pause_s or 0.0)

    def _request(self, ask: Ask[Any], timeout: httpx2.Timeout | None = None) -> httpx2.Request:
        headers = {**ask.headers, "Content-Type": "application/json"} if ask.body is not None else ask.headers
        return self._http.build_request(
            ask.method,
            ask.path,
            params=list(ask.params),
            content=ask.body,
            headers=dict(headers),
            timeout=httpx2.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )

    # -- jobs ----------------------------------------------------------------------------------------------

    async def submit(
        self, jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]], key: str | None = None
    ) -> list[shapes.Submitted]:
        """Submit jobs as a job file has them: all of them or none; they are durable once this returns.

        A `key` names the submission: with the same one again, nothing is submitted twice. Without, one is made
        up, so that asking again after a lost connection does no harm.
        """
        return await self.do(asking.submit(jobs, key))

    async def jobs(
        self,
        *,
        queue: str = "",
        job_set: str = "",
        user: str = "",
        state: shapes.JobState | None = None,
        text: str = "",
        limit: int = 100,
        after: int | None = None,
    ) -> shapes.JobPage:
        """One page of jobs, the latest first; `text` is part of an id, a job set or a user.

        `after` is `next` of the page before.
        """
        which = {"queue": queue, "job_set": job_set, "user": user, "text": text}
        return await self.do(asking.jobs(**which, state=state, limit=limit, after=after))

    async def iter_jobs(
        self,
        *,
        queue: str = "",
        job_set: str = "",
        user: str = "",
        state: shapes.JobState | None = None,
        text: str = "",
    ) -> AsyncIterator[shapes.Job]:
        """All such jobs, the latest first, page by page."""
        which, after = {"queue": queue, "job_set": job_set, "user": user, "text": text}, None
        while True:
            page = await self.do(asking.jobs(**which, state=state, limit=asking.MOST_IN_A_PAGE, after=after))
            for job in page.jobs:
                yield job
            if page.next is None:
                return
            after = page.next

    async def job(self, job_id: str) -> shapes.JobDetail:
        """One job, with what it was submitted as."""
        return await self.do(asking.job(job_id))

    async def whatif(
        self, jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (), *, events: Iterable[Mapping[str, Any]] = ()
    ) -> shapes.WhatIf:
        """When would these jobs start if they came now, and who would start earlier or later? Nothing is submitted.

        `events` are changes as scenario files write them, such as `{"setJob": {"name": ID, "priority": 9}}`.
        """
        return await self.do(asking.whatif(jobs, events))

    async def why(self, job_id: str) -> shapes.Why:
        """Why the job is not running, and when it will."""
        return await self.do(asking.why(job_id))

    async def logs(
        self,
        job_id: str,
        *,
        task: str = "",
        stream: shapes.Stream = "out",
        attempt: int | None = None,
        offset: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[str]:
        """What a task of a job wrote, piece by piece: of its first task, in its last attempt, unless said otherwise.

        With `follow` it goes on until the task is over.
        """
        while True:
            ask = asking.logs(job_id, task=task, stream=stream, attempt=attempt, offset=offset, follow=follow)
            piece = await self.do(ask)
            if piece.text:
                yield piece.text
            if piece.over or (not follow and piece.next == offset):
                return
            offset, attempt = piece.next, piece.attempt or None

    async def cancel(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Cancel these jobs, or all of a job set or a queue; returns those that were not over already."""
        return await self.do(operating.act("cancel", jobs, which))

    async def reprioritise(
        self,
        job_id: str,
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        level: str | None = None,
        freezing_window: float | None = None,
    ) -> shapes.Job:
        """Change a job, also while it runs: its priority inside its queue, priority class, level, freezing window."""
        changes = operating.changes(
            priority=priority, priority_class=priority_class, level=level, freezing_window=freezing_window
        )
        return await self.do(operating.change(job_id, changes))

    async def reprioritise_all(
        self,
        jobs: Iterable[str] = (),
        *,
        priority: int | None = None,
        priority_class: str | None = None,
        level: str | None = None,
        freezing_window: float | None = None,
        **which: Unpack[Selected],
    ) -> list[str]:
        """The same of many jobs; returns those that were changed."""
        changes = operating.changes(
            priority=priority, priority_class=priority_class, level=level, freezing_window=freezing_window
        )
        return await self.do(operating.act("change", jobs, which, changes))

    async def hold_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Hold the queued ones of these jobs back until they are released; returns those."""
        return await self.do(operating.act("hold", jobs, which))

    async def release_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Let those of these jobs go that were held back; returns those."""
        return await self.do(operating.act("release", jobs, which))

    async def preempt_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Stop the running ones of these jobs and put them back into their queues; returns those."""
        return await self.do(operating.act("preempt", jobs, which))

    async def hold(self, job_id: str) -> shapes.Job:
        """Hold a queued job back until it is released."""
        return await self.do(asking.hold(job_id))

    async def release(self, job_id: str) -> shapes.Job:
        """Let a job go that was held back."""
        return await self.do(asking.release(job_id))

    async def preempt(self, job_id: str) -> shapes.Job:
        """Stop a running job and put it back into its queue; that costs it no retry."""
        return await self.do(asking.preempt(job_id))

    async def wait(
        self, jobs: str | Iterable[str], *, until: shapes.Until = "over", timeout_s: float | None = None
    ) -> list[shapes.JobDetail]:
        """These jobs, once all of them are over, or with "running" each runs or is over by then.

        Raises TimeoutError when that takes too long.
        """
        polling = Polling(jobs, timeout_s, until=until)
        while (name := polling.next()) is not None:
            if (pause_s := polling.heard(await self.job(name))) is not None:
                await asyncio.sleep(pause_s)
        return polling.done

    # -- queues and machines -------------------------------------------------------------------------------

    async def queues(self) -> list[shapes.Queue]:
        """All queues that you may see."""
        return await self.do(asking.queues())

    async def queue(self, name: str) -> shapes.Queue:
        """One queue."""
        return await self.do(asking.queue(name))

    async def put_queue(
        self,
        name: str,
        *,
        weight: float = 1.0,
        quota: Mapping[str, str | int | float] | None = None,
        cordoned: bool = False,
        excess_budget: float | None = None,
        default_time_limit: float | None = None,
        default_expected_runtime: float | None = None,
        owners: Iterable[str] = (),
        labels: Mapping[str, str] | None = None,
    ) -> shapes.Queue:
        """Make a queue, or replace all settings of one. Times in seconds, the budget in usage × minutes; None: none."""
        ask = asking.put_queue(
            name,
            weight=weight,
            quota=quota,
            cordoned=cordoned,
            excess_budget=excess_budget,
            default_time_limit=default_time_limit,
            default_expected_runtime=default_expected_runtime,
            owners=owners,
            labels=labels,
        )
        return await self.do(ask)

    async def remove_queue(self, name: str, *, cancel: bool = False) -> None:
        """Make an end of a queue without jobs that are not over; `cancel`: they are cancelled first."""
        await self.do(operating.remove_queue(name, cancel=cancel))

    async def budgets(self) -> list[shapes.Budget]:
        """All disruption budgets of jobs that you may see."""
        return await self.do(operating.budgets())

    async def put_budget(self, job_id: str, *, min_available: int, group: str = "") -> shapes.Budget:
        """Say how many tasks of a job's group are to stay; a job of one group need not name it."""
        return await self.do(operating.put_budget(job_id, min_available=min_available, group=group))

    async def remove_budget(self, job_id: str, *, group: str = "") -> None:
        """Take a disruption budget away."""
        await self.do(operating.remove_budget(job_id, group=group))

    async def users(self) -> list[shapes.User]:
        """All users with a quota."""
        return await self.do(asking.users())

    async def put_user(self, name: str, *, quota: Mapping[str, str | int | float] | None = None) -> shapes.User:
        """Say what all jobs of a user together may hold."""
        return await self.do(asking.put_user(name, quota=quota))

    async def pools(self) -> list[shapes.Pool]:
        """All pools that someone made."""
        return await self.do(asking.pools())

    async def put_pool(
        self,
        name: str,
        *,
        node_selector: Mapping[str, str],
        disable_sharing: bool = False,
        disable_borrowing: bool = False,
        disable_preemption: bool = False,
        borrowing_pools: Iterable[str] = (),
        keep: Mapping[str, str | int | float] | None = None,
    ) -> shapes.Pool:
        """Make a pool, or replace all settings of one."""
        return await self.do(
            asking.put_pool(
                name,
                node_selector=node_selector,
                disable_sharing=disable_sharing,
                disable_borrowing=disable_borrowing,
                disable_preemption=disable_preemption,
                borrowing_pools=borrowing_pools,
                keep=keep,
            )
        )

    async def remove_pool(self, name: str) -> None:
        """Make an end of a pool: its nodes and waiting jobs go where they belong without it."""
        await self.do(asking.remove_pool(name))

    async def clusters(self) -> list[shapes.Cluster]:
        """All clusters."""
        return await self.do(asking.clusters())

    async def lose_cluster(self, name: str) -> list[str]:
        """Declare that a cluster is gone with all that ran there; returns the jobs that go back to their queues."""
        return await self.do(asking.lose_cluster(name))

    async def nodes(self, *, cluster: str = "") -> list[shapes.Node]:
        """All nodes, or those of one cluster."""
        return await self.do(asking.nodes(cluster=cluster))

    async def cordon(self, node: str) -> shapes.Node:
        """Let nothing new start on a node."""
        return await self.do(asking.cordon(node))

    async def drain(self, node: str, *, grace_s: float = 0.0) -> shapes.Node:
        """Let nothing new start on a node, and have what runs there leave it, after so many seconds.

        Jobs that have their `min` elsewhere go on; others start again elsewhere, which costs them no retry. The node is
        empty once `is_drained`; `uncordon` ends it.
        """
        return await self.do(asking.drain(node, grace_s=grace_s))

    async def uncordon(self, node: str) -> shapes.Node:
        """Let things start on a node again."""
        return await self.do(asking.uncordon(node))

    # -- for operators -------------------------------------------------------------------------------------

    async def status(self) -> shapes.Status:
        """How the server is."""
        return await self.do(asking.status())

    async def change_settings(self, *, paused: bool | None = None, preemption: str | None = None) -> shapes.Status:
        """Pause or resume; let turns evict jobs ("on"), or not ("off"), or only say whom they would ("dry-run")."""
        return await self.do(asking.change_settings(paused=paused, preemption=preemption))

    async def policy(self) -> shapes.Policy:
        """The numbers of the rules, as turns go by them."""
        return await self.do(operating.policy())

    async def change_policy(
        self,
        *,
        aging_after: str | float | None = KEEP,
        over_share: str | float | None = KEEP,
        cores_per_gpu: str | float | None = KEEP,
        calendar: Sequence[Mapping[str, Any]] | None = KEEP,
    ) -> shapes.Policy:
        """Set numbers of the rules, as scenario files write them; None takes back what was set."""
        ask = operating.change_policy(
            aging_after=aging_after, over_share=over_share, cores_per_gpu=cores_per_gpu, calendar=calendar
        )
        return await self.do(ask)

    async def turns(self, *, limit: int = 20) -> list[shapes.Turn]:
        """What the last turns decided, the latest first."""
        return await self.do(asking.turns(limit=limit))

    async def turn(self, number: int) -> shapes.TurnDetail:
        """One turn, and why those waited who did."""
        return await self.do(asking.turn(number))

    async def records(self) -> list[shapes.Record]:
        """Recorded turns, the oldest first."""
        return await self.do(asking.records())

    async def record(self, name: str) -> bytes:
        """One record, as `muster replay FILE` reads it."""
        return await self.do(asking.record(name))

    async def audit(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Who changed what, the latest first."""
        return await self.do(asking.audit(limit=limit))

    async def usage(self, *, by: shapes.By = "queue", since: str = "30d") -> shapes.UsageReport:
        """What each queue or user had, for so long until now, what of it was good, and what was thrown away."""
        return await self.do(asking.usage(by=by, since=since))

    async def tokens(self) -> list[shapes.Token]:
        """Everyone who may come in."""
        return await self.do(asking.tokens())

    async def make_token(
        self, name: str, *, admin: bool = False, queues: Mapping[str, Sequence[str]] | None = None, cluster: str = ""
    ) -> shapes.NewToken:
        """Make a token; only this answer shows it."""
        return await self.do(asking.make_token(name, admin=admin, queues=queues, cluster=cluster))

    async def remove_token(self, token_id: str) -> None:
        """Take a token back."""
        await self.do(asking.remove_token(token_id))

    # -- events --------------------------------------------------------------------------------------------

    async def events(
        self, *, after: int | None = None, queue: str = "", job_set: str = "", job: str = "", follow: bool = True
    ) -> AsyncIterator[shapes.Event]:
        """What happens, in order, each event once; from now on, or after an event (0: from the oldest that is kept).

        Without `follow` it ends with what has happened by now. A connection that breaks is made again.
        """
        if after is None and follow:  # so that a connection that breaks before the first event loses none
            after = (await self.status()).last_event
        following = Following(after=after, queue=queue, job_set=job_set, job=job, follow=follow)
        patience = Patience(self.server, self._patience_s)
        while True:
            ask = following.ask()
            try:
                async for event in self._stream(ask, following, patience):
                    yield event
                if not follow:
                    return
                pause_s = FIRST_PAUSE_S
            except httpx2.TransportError as err:
                pause_s = patience.after_trouble(ask, err)
            except Again as again:
                pause_s = again.pause_s
            await asyncio.sleep(pause_s)

    async def _stream(self, ask: Ask[None], following: Following, patience: Patience) -> AsyncIterator[shapes.Event]:
        timeout = httpx2.Timeout(self._http.timeout.connect, read=SILENT_FOR_S)
        answer = await self._http.send(self._request(ask, timeout), stream=True)
        try:
            if not answer.is_success:
                raise BrokenOff(answer.status_code, await answer.aread(), answer.headers.get("Retry-After"))
            async for chunk in answer.aiter_bytes():
                patience.renew()
                for event in following.feed(chunk):
                    yield event
        except BrokenOff as broken:
            raise patience.after_breaking_off(ask, broken) from None
        finally:
            await answer.aclose()
