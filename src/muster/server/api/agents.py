"""Where agents call in (muster.agent.protocol)."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache, partial

import msgspec
from fastapi import APIRouter, Request, Response

from muster.agent.protocol import (
    HONOURABLE,
    MOST_MESSAGE,
    VERSION,
    Answer,
    Call,
    Lease,
    Place,
    Report,
    Stop,
    Terms,
    understands,
)
from muster.documents.jobs.spec import JobSpec
from muster.model import events as ev
from muster.model.errors import InvalidValue
from muster.model.fleet import Cluster
from muster.model.jobs import Profile, TaskGroup
from muster.model.resources import CPU, MEMORY
from muster.server.api.describing import CALL
from muster.server.api.doors import Asking, Desk
from muster.server.api.errors import Error, Problem, Refused
from muster.server.finding import cluster_thing, node_thing, reported_node
from muster.server.leases import STOPPING, revision
from muster.server.news import Heard, News
from muster.server.service import PATIENCE_S, Service
from muster.store.rows import LeaseRow, Thing

router = APIRouter(prefix="/api/v1", tags=["agents"])

LONGEST_WAIT_S = 30.0
MOST_TOLD = 5_000  # leases and stops in one answer

_call = msgspec.json.Decoder(Call)
_encode = msgspec.json.Encoder().encode


@router.post("/agents/{cluster}/call", openapi_extra=CALL, responses={426: {"model": Error}})
async def call(cluster: str, request: Request, desk: Desk, who: Asking) -> Response:
    """An agent says what became of its attempts and hears what to start and stop."""
    if not who.speaks_for(cluster):
        raise Refused(403, f"{who.name} is not the agent of cluster {cluster!r}")
    said = _read(await request.body())
    if not understands(said.version):
        raise Refused(426, f"version {said.version!r} of the protocol is not understood here: this is {VERSION}")
    desk.logs.heard(cluster, said.version, said.pieces)
    calls = desk.leases.call(cluster, said.session, said.got, desk.turns.now_ms(), hello=said.hello)
    if not calls:
        return _answer(Answer(again=True))
    await _take_in(desk, cluster, said)
    stale = desk.leases.stale(cluster, said.reports)
    if stale:  # before it may start anything
        stops = [Stop(job=it.job, attempt=it.attempt, reason="stale") for it in stale]
        number, heard = desk.leases.note_answer(cluster, calls, ())
        return _answer(Answer(number=number, heard=heard if said.number else -1, stops=stops))
    wanted = await _wanted(desk, cluster, said, calls)
    if not desk.leases.is_last(cluster, calls) or not desk.leases.is_current(cluster, said.session):
        return _answer(Answer(again=True))
    answer = await asyncio.to_thread(_as_answer, desk, cluster, said, calls, wanted)
    return _answer(msgspec.structs.replace(answer, reads=desk.logs.wanted(cluster)))


def _read(body: bytes) -> Call:
    try:
        said = _call.decode(body)
    except msgspec.ValidationError as err:
        raise Refused(422, f"body: {err}", [Problem(field="body", allowed=str(err))]) from None
    except msgspec.DecodeError as err:
        raise Refused(422, f"body: not JSON: {err}", [Problem(field="body", allowed=f"JSON: {err}")]) from None
    return msgspec.structs.replace(said, reports=[_kept(report) for report in said.reports])


def _kept(report: Report) -> Report:
    """The report with what can be kept of its message. To refuse it would refuse the same call for ever."""
    if len(report.message) <= MOST_MESSAGE and "\0" not in report.message:
        return report
    return msgspec.structs.replace(report, message=report.message[:MOST_MESSAGE].replace("\0", "\ufffd"))


async def _take_in(desk: Service, cluster: str, said: Call) -> None:
    """Have what the agent says considered. Nobody waits here until that attempts go on, or ended, is durable: of the
    one the agent says so again whenever it says hello, the other it keeps until it is told that it was heard.

    So it hears sooner what to start, and may sooner say what ended. Whoever gives calls no numbers is answered when
    what ended is durable.
    """
    events, things, gone = _nodes(desk, cluster, said) if said.nodes is not None else ([], [], [])
    if not (events or said.reports or said.hello or gone):
        return
    heard = Heard(cluster=cluster, reports=said.reports, is_all=said.hello)
    news = News(events=events, heard=heard, things=things, gone=gone)
    done = desk.turns.put(news)
    is_told_once = any(report.failed or (report.stage == "ended" and not said.number) for report in said.reports)
    if done.done() or is_told_once or events or gone or said.hello:
        # Shielded: who is not waited for any longer is considered all the same.
        await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(done)), PATIENCE_S)
        desk.leases.hear(cluster, said.session, said.number)
    else:
        done.add_done_callback(partial(_heard, desk, cluster, said))


def _heard(desk: Service, cluster: str, said: Call, done: Future[int]) -> None:
    """What an agent said is durable; or it came to nothing, and all must be said again."""
    if done.exception() is None:
        desk.leases.hear(cluster, said.session, said.number)
    else:
        desk.leases.end_session(cluster)


def _nodes(desk: Service, cluster: str, said: Call) -> tuple[list[ev.Event], list[Thing], list[tuple[str, str]]]:
    """What is new about the cluster's nodes."""
    try:
        reported = [reported_node(report, cluster) for report in said.nodes or ()]
    except InvalidValue as err:
        raise Refused(422, f"nodes: {err}", [Problem(field="nodes", allowed=str(err))]) from None
    events: list[ev.Event] = []
    things: list[Thing] = []
    gone: list[tuple[str, str]] = []
    with desk.world.lock:
        machines = desk.world.state.machines
        before = machines.clusters.get(cluster, Cluster(name=cluster))
        honours = tuple(it for it in HONOURABLE if it in said.honours) if said.hello else before.honours
        if cluster not in machines.clusters or honours != before.honours:
            made = replace(before, honours=honours, silent=False)  # it speaks
            events.append(ev.ClusterSet(cluster=made))
            things.append(cluster_thing(made))
        reported = desk.cordons.closed(reported)
        known = {name: node for name, node in machines.nodes.items() if node.cluster == cluster}
        taken = [node.name for node in reported if node.name in machines.nodes and node.name not in known]
    if taken:
        allowed = f"a node of another cluster is called {taken[0]!r}: names are unique"
        raise Refused(422, f"nodes: {allowed}", [Problem(field="nodes", value=taken[0], allowed=allowed)])
    for node in reported:
        if known.get(node.name) != node:
            events.append(ev.NodeAdded(node=node))
            things.append(node_thing(node))
    for name in known.keys() - {node.name for node in reported}:
        events.append(ev.NodeRemoved(node=name))
        gone.append(("node", name))
    return events, things, gone


async def _wanted(desk: Service, cluster: str, said: Call, calls: int) -> list[LeaseRow]:
    """What the agent is to be told, as soon as there is something or it has called again."""
    bell = desk.bells.of(cluster)
    loop = asyncio.get_running_loop()
    # An agent that waits is heard of often enough not to be taken for a silent one.
    until = loop.time() + min(said.wait_s, LONGEST_WAIT_S, desk.limits.silent_ms / 3000)
    while desk.leases.is_last(cluster, calls):
        bell.clear()
        wanted = desk.leases.to_tell(cluster, MOST_TOLD)
        left = until - loop.time()
        is_asked = bool(wanted or desk.logs.wanted(cluster)) or desk.leases.has_heard_more(cluster)
        if is_asked or left <= 0 or desk.is_closing or not desk.leases.is_current(cluster, said.session):
            return wanted
        try:
            await asyncio.wait_for(bell.wait(), left)
        except TimeoutError:
            return desk.leases.to_tell(cluster, MOST_TOLD)
    return []


def _as_answer(desk: Service, cluster: str, said: Call, calls: int, rows: list[LeaseRow]) -> Answer:
    starting = [row for row in rows if row.state != STOPPING]
    specs = desk.specs.take({row.job for row in starting})
    leases = [_lease(row, specs[row.job]) for row in starting]
    stops = [Stop(job=row.job, attempt=row.attempt, reason=row.reason) for row in rows if row.state == STOPPING]
    number, heard = desk.leases.note_answer(cluster, calls, rows)
    return Answer(number=number, heard=heard if said.number else -1, leases=leases, stops=stops)


def _lease(row: LeaseRow, spec: JobSpec) -> Lease:
    at = row.spec
    return Lease(
        job=row.job,
        attempt=row.attempt,
        revision=revision(row),
        name=row.name,
        queue=at["queue"],
        user=at["user"],
        places=[Place(**place) for place in at["places"]],
        launch=spec.launch.plain(),
        time_limit_s=at["timeLimit"],
        grace_s=spec.grace_ms / 1000,
        groups=_terms_of(spec.profile),
    )


@lru_cache(maxsize=4096)
def _terms_of(profile: Profile) -> dict[str, Terms]:
    """What an agent must know of each group; most jobs have a profile that others had before."""
    return {group.name: _terms(group) for group in profile.groups}


def _terms(group: TaskGroup) -> Terms:
    request = group.request
    return Terms(
        min=group.min,
        max=group.max,
        decides=group.decides,
        cpu=request.resources.get(CPU),
        memory=request.resources.get(MEMORY),
        gpu=request.gpu_milli if request.gpus else 0,
        whole_node=request.whole_node,
    )


def _answer(answer: Answer) -> Response:
    return Response(_encode(answer), media_type="application/json")
