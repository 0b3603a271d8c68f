"""For operators: how the server is, what turns decided, who changed what, tokens, numbers for Prometheus."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import PlainTextResponse

from muster import __version__
from muster.model.policy import Preemption
from muster.server.access import KIND, Who, as_thing, new_token
from muster.server.api.doors import Admin, Asking, Desk
from muster.server.api.errors import Error, not_found
from muster.server.api.shapes import (
    ServerStatus,
    Settings,
    TokenBody,
    TokenMade,
    TokenView,
    TurnDetail,
    TurnView,
    WaitView,
)
from muster.server.metrics import exposition
from muster.server.reasons import WAITING, Written, tables_in
from muster.server.service import PATIENCE_S
from muster.state.why.table import Wait
from muster.store.rows import TurnRow

router = APIRouter(tags=["operations"])
open_router = APIRouter(tags=["operations"])  # needs no token


@open_router.get("/healthz", response_class=PlainTextResponse, responses={503: {"description": "turns have stopped"}})
async def health(desk: Desk) -> Response:
    """Whether the server takes turns and its store can be reached."""
    if desk.turns.failure is not None:
        return PlainTextResponse("turns have stopped: see the log\n", status_code=503)
    if desk.turns.is_down:
        return PlainTextResponse("the store cannot be reached\n", status_code=503)
    return PlainTextResponse("ok\n")


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(desk: Desk, _who: Asking) -> Response:
    """Numbers for Prometheus."""
    return Response(exposition(desk), media_type="text/plain; version=0.0.4")


@router.get("/api/v1/status")
def status(desk: Desk, _who: Asking) -> ServerStatus:
    """How the server is."""
    counts = desk.turns.counts
    return ServerStatus(
        version=__version__,
        turns=counts.turns,
        last_event=desk.store.last_seq(),
        store_down=desk.turns.is_down,
        paused=desk.world.is_paused,
        preemption=desk.policy.preemption.value,
        most_jobs=desk.limits.most_jobs,
    )


@router.patch("/api/v1/settings")
def change_settings(body: Settings, desk: Desk, who: Admin) -> ServerStatus:
    """Pause or resume; let turns evict jobs, or not, or only say whom they would."""
    preemption = None if body.preemption is None else Preemption(body.preemption)
    desk.set(who, paused=body.paused, preemption=preemption)
    return status(desk, who)


@router.get("/api/v1/turns")
def turns(desk: Desk, _who: Asking, limit: Annotated[int, Query(ge=1, le=1000)] = 20) -> list[TurnView]:
    """What the last turns decided, the latest first."""
    rows = desk.store.turns(limit=limit)
    tables = tables_in(desk.store, rows)
    return [TurnView(**_turn(row, tables.get(row.number))) for row in rows]


@router.get("/api/v1/turns/{number}", responses={404: {"model": Error}})
def turn(number: Annotated[int, Path(ge=1, le=2**63 - 1)], desk: Desk, who: Asking) -> TurnDetail:
    """One turn, and why those waited who did; of queues that whoever asks may see."""
    row = desk.store.turn(number)
    if row is None:
        raise not_found("turn", str(number))
    written = tables_in(desk.store, [row]).get(number)
    waits = () if written is None else written.table.waits
    reasons = [_wait(wait) for wait in waits if who.may("view", wait.queue)]
    return TurnDetail(**_turn(row, written), reasons=reasons, reasons_of=None if written is None else written.turn)


def _turn(row: TurnRow, written: Written | None) -> dict[str, Any]:
    decided = {name: value for name, value in row.body.items() if name != WAITING}
    waiting = {} if written is None else dict(written.table.counts())
    return {
        "number": row.number,
        "at": row.at_ms / 1000,
        "took": row.took_ms / 1000,
        "decided": decided,
        "waiting": waiting,
    }


def _wait(wait: Wait) -> WaitView:
    return WaitView(
        queue=wait.queue,
        asks=wait.asks,
        reason=wait.reason.name,
        text=wait.explain(),
        jobs=wait.jobs,
        job=wait.job,
        facts=dict(wait.facts),
    )


@router.get("/api/v1/audit")
def audit(desk: Desk, _who: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> list[dict[str, Any]]:
    """Who changed what, the latest first."""
    rows = desk.store.audit(limit=limit)
    return [{"t": row.at_ms / 1000, "who": row.who, "what": row.what, **row.body} for row in rows]


@router.post("/api/v1/tokens", status_code=201)
def make_token(body: TokenBody, desk: Desk, who: Admin) -> TokenMade:
    """Make a token. It is shown in this answer and never again."""
    queues = {queue: tuple(rights) for queue, rights in body.queues.items()}
    owner = Who(name=body.name, is_admin=body.admin, queues=queues, cluster=body.cluster)
    token = new_token()
    thing = as_thing(owner, token)
    desk.change([], who, "token made", {"token": thing.name[:12], "for": body.name}, things=[thing]).result(PATIENCE_S)
    desk.access.add(thing)
    return TokenMade(token=token, **_view(thing.name[:12], owner))


@router.get("/api/v1/tokens")
def tokens(desk: Desk, _who: Admin) -> list[TokenView]:
    """Everyone who may come in."""
    return [TokenView(**_view(short, owner)) for short, owner in sorted(desk.access.names().items())]


@router.delete("/api/v1/tokens/{token_id}", status_code=204, responses={404: {"model": Error}})
def remove_token(token_id: str, desk: Desk, who: Admin) -> None:
    """Take a token back."""
    hashed = desk.access.hash_of(token_id) if len(token_id) == 12 else None
    if hashed is None:
        raise not_found("token", token_id)
    desk.change([], who, "token removed", {"token": token_id}, gone=[(KIND, hashed)]).result(PATIENCE_S)
    desk.access.remove(hashed)


def _view(short: str, who: Who) -> dict[str, Any]:
    queues = {queue: list(rights) for queue, rights in who.queues.items()}
    return {"id": short, "name": who.name, "admin": who.is_admin, "queues": queues, "cluster": who.cluster}
