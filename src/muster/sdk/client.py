"""`muster.Client`: asks a server, and waits for the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar, Unpack

import httpx2

from muster.sdk import asking, operating, shapes
from muster.sdk.asking import Ask
from muster.sdk.contexts import Context, Said, is_local, meant
from muster.sdk.errors import error_of
from muster.sdk.events import SILENT_FOR_S, Following
from muster.sdk.operating import KEEP, Selected
from muster.sdk.polling import Polling
from muster.sdk.retrying import FIRST_PAUSE_S, Again, BrokenOff, Patience

T = TypeVar("T")

TIMEOUT_S = 30.0
PATIENCE_S = 30.0


class Client:
    """A connection to a server. Without arguments, to the one that `muster` on the command line asks too.

    `patience_s`: for how long something is asked again when the server cannot be reached or is too busy. One client may
    be used by several threads.
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
        self._http = httpx2.Client(
            base_url=to.server, headers=headers, timeout=timeout_s, trust_env=not is_local(to.server)
        )

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- carrying out --------------------------------------------------------------------------------------

    def do(self, ask: Ask[T]) -> T:
        """The answer to a question of `muster.sdk.asking`."""
        return ask.answer(self.fetch(ask))

    def fetch(self, ask: Ask[Any]) -> bytes:
        """The answer as it was sent: JSON."""
        patience = Patience(self.server, self._patience_s)
        while True:
            try:
                answer = self._http.send(self._request(ask))
            except httpx2.TransportError as err:
                pause_s: float | None = patience.after_trouble(ask, err)
            else:
                if answer.is_success:
                    return answer.content
                pause_s = patience.after_answer(ask, answer.status_code, answer.headers.get("Retry-After"))
                if pause_s is None:
                    raise error_of(answer.status_code, answer.content)
            time.sleep(pause_s or 0.0)

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

    def submit(
        self, jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]], key: str | None = None
    ) -> list[shapes.Submitted]:
        """Submit jobs as a job file has them: all of them or none; they are durable once this returns.

        A `key` names the submission: with the same one again, nothing is submitted twice. Without, one is made
        up, so that asking again after a lost connection does no harm.
        """
        return self.do(asking.submit(jobs, key))

    def jobs(
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
        return self.do(asking.jobs(**which, state=state, limit=limit, after=after))

    def iter_jobs(
        self,
        *,
        queue: str = "",
        job_set: str = "",
        user: str = "",
        state: shapes.JobState | None = None,
        text: str = "",
    ) -> Iterator[shapes.Job]:
        """All such jobs, the latest first, page by page."""
        which, after = {"queue": queue, "job_set": job_set, "user": user, "text": text}, None
        while True:
            page = self.do(asking.jobs(**which, state=state, limit=asking.MOST_IN_A_PAGE, after=after))
            yield from page.jobs
            if page.next is None:
                return
            after = page.next

    def job(self, job_id: str) -> shapes.JobDetail:
        """One job, with what it was submitted as."""
        return self.do(asking.job(job_id))

    def whatif(
        self, jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (), *, events: Iterable[Mapping[str, Any]] = ()
    ) -> shapes.WhatIf:
        """When would these jobs start if they came now, and who would start earlier or later? Nothing is submitted.

        `events` are changes as scenario files write them, such as `{"setJob": {"name": ID, "priority": 9}}`.
        """
        return self.do(asking.whatif(jobs, events))

    def why(self, job_id: str) -> shapes.Why:
        """Why the job is not running, and when it will."""
        return self.do(asking.why(job_id))

    def logs(
        self,
        job_id: str,
        *,
        task: str = "",
        stream: shapes.Stream = "out",
        attempt: int | None = None,
        offset: int = 0,
        follow: bool = False,
    ) -> Iterator[str]:
        """What a task of a job wrote, piece by piece: of its first task, in its last attempt, unless said otherwise.

        With `follow` it goes on until the task is over.
        """
        while True:
            ask = asking.logs(job_id, task=task, stream=stream, attempt=attempt, offset=offset, follow=follow)
            piece = self.do(ask)
            if piece.text:
                yield piece.text
            if piece.over or (not follow and piece.next == offset):
                return
            offset, attempt = piece.next, piece.attempt or None

    def cancel(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Cancel these jobs, or all of a job set or a queue; returns those that were not over already."""
        return self.do(operating.act("cancel", jobs, which))

    def reprioritise(
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
        return self.do(operating.change(job_id, changes))

    def reprioritise_all(
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
        return self.do(operating.act("change", jobs, which, changes))

    def hold_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Hold the queued ones of these jobs back until they are released; returns those."""
        return self.do(operating.act("hold", jobs, which))

    def release_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Let those of these jobs go that were held back; returns those."""
        return self.do(operating.act("release", jobs, which))

    def preempt_all(self, jobs: Iterable[str] = (), **which: Unpack[Selected]) -> list[str]:
        """Stop the running ones of these jobs and put them back into their queues; returns those."""
        return self.do(operating.act("preempt", jobs, which))

    def hold(self, job_id: str) -> shapes.Job:
        """Hold a queued job back until it is released."""
        return self.do(asking.hold(job_id))

    def release(self, job_id: str) -> shapes.Job:
        """Let a job go that was held back."""
        return self.do(asking.release(job_id))

    def preempt(self, job_id: str) -> shapes.Job:
        """Stop a running job and put it back into its queue; that costs it no retry."""
        return self.do(asking.preempt(job_id))

    def wait(
        self, jobs: str | Iterable[str], *, until: shapes.Until = "over", timeout_s: float | None = None
    ) -> list[shapes.JobDetail]:
        """These jobs, once all of them are over, or with "running" each runs or is over by then.

        Raises TimeoutError when that takes too long.
        """
        polling = Polling(jobs, timeout_s, until=until)
        while (name := polling.next()) is not None:
            if (pause_s := polling.heard(self.job(name))) is not None:
                time.sleep(pause_s)
        return polling.done

    # -- queues and machines -------------------------------------------------------------------------------

    def queues(self) -> list[shapes.Queue]:
        """All queues that you may see."""
        return self.do(asking.queues())

    def queue(self, name: str) -> shapes.Queue:
        """One queue."""
        return self.do(asking.queue(name))

    def put_queue(
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
        return self.do(ask)

    def remove_queue(self, name: str, *, cancel: bool = False) -> None:
        """Make an end of a queue without jobs that are not over; `cancel`: they are cancelled first."""
        self.do(operating.remove_queue(name, cancel=cancel))

    def budgets(self) -> list[shapes.Budget]:
        """All disruption budgets of jobs that you may see."""
        return self.do(operating.budgets())

    def put_budget(self, job_id: str, *, min_available: int, group: str = "") -> shapes.Budget:
        """Say how many tasks of a job's group are to stay; a job of one group need not name it."""
        return self.do(operating.put_budget(job_id, min_available=min_available, group=group))

    def remove_budget(self, job_id: str, *, group: str = "") -> None:
        """Take a disruption budget away."""
        self.do(operating.remove_budget(job_id, group=group))

    def users(self) -> list[shapes.User]:
        """All users with a quota."""
        return self.do(asking.users())

    def put_user(self, name: str, *, quota: Mapping[str, str | int | float] | None = None) -> shapes.User:
        """Say what all jobs of a user together may hold."""
        return self.do(asking.put_user(name, quota=quota))

    def pools(self) -> list[shapes.Pool]:
        """All pools that someone made."""
        return self.do(asking.pools())

    def put_pool(
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
        return self.do(
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

    def remove_pool(self, name: str) -> None:
        """Make an end of a pool: its nodes and waiting jobs go where they belong without it."""
        self.do(asking.remove_pool(name))

    def clusters(self) -> list[shapes.Cluster]:
        """All clusters."""
        return self.do(asking.clusters())

    def lose_cluster(self, name: str) -> list[str]:
        """Declare that a cluster is gone with all that ran there; returns the jobs that go back to their queues."""
        return self.do(asking.lose_cluster(name))

    def nodes(self, *, cluster: str = "") -> list[shapes.Node]:
        """All nodes, or those of one cluster."""
        return self.do(asking.nodes(cluster=cluster))

    def cordon(self, node: str) -> shapes.Node:
        """Let nothing new start on a node."""
        return self.do(asking.cordon(node))

    def drain(self, node: str, *, grace_s: float = 0.0) -> shapes.Node:
        """Let nothing new start on a node, and have what runs there leave it, after so many seconds.

        Jobs that have their `min` elsewhere go on; others start again elsewhere, which costs them no retry. The node is
        empty once `is_drained`; `uncordon` ends it.
        """
        return self.do(asking.drain(node, grace_s=grace_s))

    def uncordon(self, node: str) -> shapes.Node:
        """Let things start on a node again."""
        return self.do(asking.uncordon(node))

    # -- for operators -------------------------------------------------------------------------------------

    def status(self) -> shapes.Status:
        """How the server is."""
        return self.do(asking.status())

    def change_settings(self, *, paused: bool | None = None, preemption: str | None = None) -> shapes.Status:
        """Pause or resume; let turns evict jobs ("on"), or not ("off"), or only say whom they would ("dry-run")."""
        return self.do(asking.change_settings(paused=paused, preemption=preemption))

    def policy(self) -> shapes.Policy:
        """The numbers of the rules, as turns go by them."""
        return self.do(operating.policy())

    def change_policy(
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
        return self.do(ask)

    def turns(self, *, limit: int = 20) -> list[shapes.Turn]:
        """What the last turns decided, the latest first."""
        return self.do(asking.turns(limit=limit))

    def turn(self, number: int) -> shapes.TurnDetail:
        """One turn, and why those waited who did."""
        return self.do(asking.turn(number))

    def records(self) -> list[shapes.Record]:
        """Recorded turns, the oldest first."""
        return self.do(asking.records())

    def record(self, name: str) -> bytes:
        """One record, as `muster replay FILE` reads it."""
        return self.do(asking.record(name))

    def audit(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """Who changed what, the latest first."""
        return self.do(asking.audit(limit=limit))

    def usage(self, *, by: shapes.By = "queue", since: str = "30d") -> shapes.UsageReport:
        """What each queue or user had, for so long until now, what of it was good, and what was thrown away."""
        return self.do(asking.usage(by=by, since=since))

    def tokens(self) -> list[shapes.Token]:
        """Everyone who may come in."""
        return self.do(asking.tokens())

    def make_token(
        self, name: str, *, admin: bool = False, queues: Mapping[str, Sequence[str]] | None = None, cluster: str = ""
    ) -> shapes.NewToken:
        """Make a token; only this answer shows it."""
        return self.do(asking.make_token(name, admin=admin, queues=queues, cluster=cluster))

    def remove_token(self, token_id: str) -> None:
        """Take a token back."""
        self.do(asking.remove_token(token_id))

    # -- events --------------------------------------------------------------------------------------------

    def events(
        self, *, after: int | None = None, queue: str = "", job_set: str = "", job: str = "", follow: bool = True
    ) -> Iterator[shapes.Event]:
        """What happens, in order, each event once; from now on, or after an event (0: from the oldest that is kept).

        Without `follow` it ends with what has happened by now. A connection that breaks is made again.
        """
        if after is None and follow:  # so that a connection that breaks before the first event loses none
            after = self.status().last_event
        following = Following(after=after, queue=queue, job_set=job_set, job=job, follow=follow)
        patience = Patience(self.server, self._patience_s)
        while True:
            ask = following.ask()
            try:
                yield from self._stream(ask, following, patience)
                if not follow:
                    return
                pause_s = FIRST_PAUSE_S
            except httpx2.TransportError as err:
                pause_s = patience.after_trouble(ask, err)
            except Again as again:
                pause_s = again.pause_s
            time.sleep(pause_s)

    def _stream(self, ask: Ask[None], following: Following, patience: Patience) -> Iterator[shapes.Event]:
        timeout = httpx2.Timeout(self._http.timeout.connect, read=SILENT_FOR_S)
        answer = self._http.send(self._request(ask, timeout), stream=True)
        try:
            if not answer.is_success:
                raise BrokenOff(answer.status_code, answer.read(), answer.headers.get("Retry-After"))
            for chunk in answer.iter_bytes():
                patience.renew()
                yield from following.feed(chunk)
        except BrokenOff as broken:
            raise patience.after_breaking_off(ask, broken) from None
        finally:
            answer.close()
