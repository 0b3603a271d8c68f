"""Every question that a server answers: what is sent, and how the answer is read; more of them are in `operating`.

An `Ask` is a value; whoever carries it out decides how (client, aclient, the command line).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from muster.model.errors import InvalidValue
from muster.sdk import decoding as read
from muster.sdk import shapes
from muster.sdk.errors import ApiError
from muster.sdk.shapes import JobState

T = TypeVar("T")

MOST_IN_A_PAGE = 1000
MOST_GRACE_S = 30 * 86_400.0

API = "/api/v1"
_KEY = re.compile(r"[A-Za-z0-9._:/-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[T]):
    """One question. `is_repeatable`: asking twice does no harm, so it may be asked again where no answer came."""

    method: str
    path: str
    read: Callable[[bytes], T]
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True

    def answer(self, body: bytes) -> T:
        """What the server answered."""
        try:
            return self.read(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as err:
            raise ApiError(200, f"the answer to {self.method} {self.path} is not a Muster server's: {err}") from None


# --- jobs ----------------------------------------------------------------------------------------


def submit(
    jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]], key: str | None = None
) -> Ask[list[shapes.Submitted]]:
    """Submit jobs, all of them or none. The same key again is answered with the jobs of the first time."""
    entries = [jobs] if isinstance(jobs, Mapping) else list(jobs)
    if not entries:
        raise InvalidValue([], "one or more jobs, as a job file has them", "jobs")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidValue(key, "a key of 1 to 200 letters, digits, '.', '_', ':', '/' and '-'", "key")
    return Ask(
        method="POST",
        path=f"{API}/jobs",
        body=as_json({"jobs": entries}),
        headers={"Idempotency-Key": key or new_key()},
        read=lambda body: read.Submitted.decode(body).jobs,
    )


def new_key() -> str:
    """A key that no other submission has."""
    return secrets.token_hex(16)


def jobs(
    *,
    queue: str = "",
    job_set: str = "",
    user: str = "",
    state: JobState | None = None,
    text: str = "",
    limit: int = 100,
    after: int | None = None,
) -> Ask[shapes.JobPage]:
    """Jobs, the latest first; `text` is part of an id, a job set or a user, `after` is `next` of the page before."""
    if not 1 <= limit <= MOST_IN_A_PAGE:
        raise InvalidValue(limit, f"from 1 to {MOST_IN_A_PAGE}", "limit")
    if state is not None and state not in shapes.STATES:
        raise InvalidValue(state, f"one of {', '.join(shapes.STATES)}", "state")
    said = given(queue=queue, jobSet=job_set, user=user, state=state, text=text, after=after, limit=limit)
    return Ask(method="GET", path=f"{API}/jobs", params=said, read=read.Page.decode)


def job(job_id: str) -> Ask[shapes.JobDetail]:
    """One job, with what it was submitted as."""
    return Ask(method="GET", path=f"{API}/jobs/{named(job_id, 'job')}", read=read.Detail.decode)


def why(job_id: str) -> Ask[shapes.Why]:
    """Why the job is not running, and when it will."""
    return Ask(method="GET", path=f"{API}/jobs/{named(job_id, 'job')}/why", read=read.Why.decode)


def logs(
    job_id: str,
    *,
    task: str = "",
    stream: shapes.Stream = "out",
    attempt: int | None = None,
    offset: int = 0,
    follow: bool = False,
) -> Ask[shapes.Log]:
    """A piece of what a task of a job wrote; with `follow` the server waits a little for more."""
    said = given(task=task, stream=stream, attempt=attempt, offset=offset, follow="true" if follow else None)
    return Ask(method="GET", path=f"{API}/jobs/{named(job_id, 'job')}/logs", params=said, read=read.Log.decode)


def hold(job_id: str) -> Ask[shapes.Job]:
    """Hold a queued job back until it is released."""
    return Ask(method="POST", path=f"{API}/jobs/{named(job_id, 'job')}/hold", read=read.Job.decode)


def release(job_id: str) -> Ask[shapes.Job]:
    """Let a job go that was held back."""
    return Ask(method="POST", path=f"{API}/jobs/{named(job_id, 'job')}/release", read=read.Job.decode)


def preempt(job_id: str) -> Ask[shapes.Job]:
    """Stop a running job and put it back into its queue. Asked twice, it could stop the next attempt too."""
    path = f"{API}/jobs/{named(job_id, 'job')}/preempt"
    return Ask(method="POST", path=path, read=read.Job.decode, is_repeatable=False)


def whatif(
    jobs: Mapping[str, Any] | Iterable[Mapping[str, Any]] = (), events: Iterable[Mapping[str, Any]] = ()
) -> Ask[shapes.WhatIf]:
    """What would happen if these jobs came now, and these events as scenarios write them; nothing is changed."""
    body = {"jobs": [jobs] if isinstance(jobs, Mapping) else list(jobs), "events": list(events)}
    if not body["jobs"] and not body["events"]:
        raise InvalidValue([], "jobs, events or both: what if what?", "jobs")
    return Ask(method="POST", path=f"{API}/whatif", body=as_json(body), read=read.WhatIf.decode)


# --- queues and machines -------------------------------------------------------------------------


def queues() -> Ask[list[shapes.Queue]]:
    """All queues that whoever asks may see."""
    return Ask(method="GET", path=f"{API}/queues", read=read.Queues.decode)


def queue(name: str) -> Ask[shapes.Queue]:
    """One queue."""
    return Ask(method="GET", path=f"{API}/queues/{named(name, 'queue')}", read=read.Queue.decode)


def put_queue(
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
) -> Ask[shapes.Queue]:
    """Make a queue, or replace all settings of one. Times are seconds, the budget is usage × minutes; None: none."""
    settings = {
        "weight": weight,
        "quota": quota or {},
        "cordoned": cordoned,
        "excessBudget": excess_budget,
        "defaultTimeLimit": default_time_limit,
        "defaultExpectedRuntime": default_expected_runtime,
        "owners": several(owners),
        "labels": labels or {},
    }
    body = as_json({key: value for key, value in settings.items() if value is not None})
    return Ask(method="PUT", path=f"{API}/queues/{named(name, 'queue')}", body=body, read=read.Queue.decode)


def users() -> Ask[list[shapes.User]]:
    """All users with a quota."""
    return Ask(method="GET", path=f"{API}/users", read=read.Users.decode)


def put_user(name: str, *, quota: Mapping[str, str | int | float] | None = None) -> Ask[shapes.User]:
    """Say what all jobs of a user together may hold."""
    path = f"{API}/users/{named(name, 'user')}"
    return Ask(method="PUT", path=path, body=as_json({"quota": quota or {}}), read=read.User.decode)


def pools() -> Ask[list[shapes.Pool]]:
    """All pools that someone made."""
    return Ask(method="GET", path=f"{API}/pools", read=read.Pools.decode)


def put_pool(
    name: str,
    *,
    node_selector: Mapping[str, str],
    disable_sharing: bool = False,
    disable_borrowing: bool = False,
    disable_preemption: bool = False,
    borrowing_pools: Iterable[str] = (),
    keep: Mapping[str, str | int | float] | None = None,
) -> Ask[shapes.Pool]:
    """Make a pool, or replace all settings of one."""
    body = {
        "nodeSelector": dict(node_selector),
        "disableSharing": disable_sharing,
        "disableBorrowing": disable_borrowing,
        "disablePreemption": disable_preemption,
        "borrowingPools": several(borrowing_pools),
        "keep": keep or {},
    }
    return Ask(method="PUT", path=f"{API}/pools/{named(name, 'pool')}", body=as_json(body), read=read.Pool.decode)


def remove_pool(name: str) -> Ask[None]:
    """Make an end of a pool: its nodes and waiting jobs go where they belong without it."""
    path = f"{API}/pools/{named(name, 'pool')}"
    return Ask(method="DELETE", path=path, read=lambda _: None, is_repeatable=False)


def clusters() -> Ask[list[shapes.Cluster]]:
    """All clusters."""
    return Ask(method="GET", path=f"{API}/clusters", read=read.Clusters.decode)


def lose_cluster(name: str) -> Ask[list[str]]:
    """Declare that a cluster is gone with all that ran there; the answer is the jobs that go back to their queues."""
    path = f"{API}/clusters/{named(name, 'cluster')}/lost"
    return Ask(method="POST", path=path, read=read.Names.decode, is_repeatable=False)


def nodes(*, cluster: str = "") -> Ask[list[shapes.Node]]:
    """All nodes, or those of one cluster."""
    return Ask(method="GET", path=f"{API}/nodes", params=given(cluster=cluster), read=read.Nodes.decode)


def cordon(node: str) -> Ask[shapes.Node]:
    """Let nothing new start on a node."""
    return Ask(method="POST", path=f"{API}/nodes/{named(node, 'node')}/cordon", read=read.Node.decode)


def drain(node: str, *, grace_s: float = 0.0) -> Ask[shapes.Node]:
    """Let nothing new start on a node, and have what runs there leave it, after so many seconds."""
    if not 0 <= grace_s <= MOST_GRACE_S:
        raise InvalidValue(grace_s, f"from 0 to {MOST_GRACE_S:g} seconds", "grace_s")
    path = f"{API}/nodes/{named(node, 'node')}/drain"
    return Ask(method="POST", path=path, body=as_json({"grace": grace_s}), read=read.Node.decode)


def uncordon(node: str) -> Ask[shapes.Node]:
    """Let things start on a node again."""
    return Ask(method="POST", path=f"{API}/nodes/{named(node, 'node')}/uncordon", read=read.Node.decode)


# --- for operators -------------------------------------------------------------------------------


def status() -> Ask[shapes.Status]:
    """How the server is."""
    return Ask(method="GET", path=f"{API}/status", read=read.Status.decode)


def change_settings(*, paused: bool | None = None, preemption: str | None = None) -> Ask[shapes.Status]:
    """Pause or resume; let turns evict jobs ("on"), or not ("off"), or only say whom they would ("dry-run")."""
    said = {"paused": paused, "preemption": preemption}
    body = as_json({name: value for name, value in said.items() if value is not None})
    return Ask(method="PATCH", path=f"{API}/settings", body=body, read=read.Status.decode)


def turns(*, limit: int = 20) -> Ask[list[shapes.Turn]]:
    """What the last turns decided, the latest first."""
    return Ask(method="GET", path=f"{API}/turns", params=given(limit=limit), read=read.Turns.decode)


def turn(number: int) -> Ask[shapes.TurnDetail]:
    """One turn, and why those waited who did."""
    return Ask(method="GET", path=f"{API}/turns/{number}", read=read.Turn.decode)


def records() -> Ask[list[shapes.Record]]:
    """Recorded turns, the oldest first."""
    return Ask(method="GET", path=f"{API}/records", read=read.Records.decode)


def record(name: str) -> Ask[bytes]:
    """One record, as `muster replay FILE` reads it."""
    return Ask(method="GET", path=f"{API}/records/{named(name, 'record')}", read=bytes)


def audit(*, limit: int = 100) -> Ask[list[dict[str, Any]]]:
    """Who changed what, the latest first."""
    return Ask(method="GET", path=f"{API}/audit", params=given(limit=limit), read=read.Audit.decode)


def usage(*, by: shapes.By = "queue", since: str = "30d") -> Ask[shapes.UsageReport]:
    """What each queue or user had, for so long until now."""
    if by not in shapes.BY:
        raise InvalidValue(by, f"one of {', '.join(shapes.BY)}", "by")
    return Ask(method="GET", path=f"{API}/usage", params=(("by", by), ("since", since)), read=read.Usage.decode)


def tokens() -> Ask[list[shapes.Token]]:
    """Everyone who may come in."""
    return Ask(method="GET", path=f"{API}/tokens", read=read.Tokens.decode)


def make_token(
    name: str, *, admin: bool = False, queues: Mapping[str, Sequence[str]] | None = None, cluster: str = ""
) -> Ask[shapes.NewToken]:
    """Make a token. The answer is the only one that shows it, so a lost one is not asked for again."""
    body = as_json({"name": name, "admin": admin, "queues": queues or {}, "cluster": cluster})
    return Ask(method="POST", path=f"{API}/tokens", body=body, read=read.NewToken.decode, is_repeatable=False)


def remove_token(token_id: str) -> Ask[None]:
    """Take a token back."""
    path = f"{API}/tokens/{named(token_id, 'token')}"
    return Ask(method="DELETE", path=path, read=lambda _: None, is_repeatable=False)


def events(
    *, after: int | None = None, queue: str = "", job_set: str = "", job: str = "", follow: bool = True
) -> Ask[None]:
    """Events as a stream, which `muster.sdk.events` reads; without `after`, from now on."""
    said = given(queue=queue, jobSet=job_set, job=job, after=after, follow="true" if follow else "false")
    headers = {"Accept": "text/event-stream"}
    return Ask(method="GET", path=f"{API}/events", params=said, headers=headers, read=lambda _: None)


# --- what is sent --------------------------------------------------------------------------------


def as_json(body: Any) -> bytes:
    """What is sent."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidValue(body, f"what JSON can say: {err}", "body") from None


def given(**params: str | int | None) -> tuple[tuple[str, str], ...]:
    """The parameters that say something."""
    return tuple((name, str(value)) for name, value in params.items() if value not in (None, ""))


def named(name: str, what: str) -> str:
    """A name as one step of a path, whatever is in it."""
    if not name:
        raise InvalidValue(name, f"the name of a {what}", what)
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def several(given: Iterable[str]) -> list[str]:
    """One name is as good as a list of one."""
    return [given] if isinstance(given, str) else list(given)
