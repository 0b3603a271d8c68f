"""Recorded turns: which there are, and one of them, for `muster replay`."""

from __future__ import annotations

from fastapi import APIRouter, Response

from muster.server.api.doors import Admin, Desk
from muster.server.api.errors import Error, Refused, not_found
from muster.server.api.shapes import RecordView
from muster.server.recording import Recording
from muster.server.service import Service

router = APIRouter(prefix="/api/v1", tags=["operations"])

GZIP = "application/gzip"


@router.get("/records", responses={409: {"model": Error}})
def records(desk: Desk, _who: Admin) -> list[RecordView]:
    """Recorded turns, the oldest first; 409 where the server records none."""
    return [
        RecordView(name=it.name, bytes=it.bytes, changed=it.changed_s, open=it.is_open)
        for it in _recording(desk).kept()
    ]


@router.get(
    "/records/{name}",
    response_class=Response,
    responses={
        200: {"content": {GZIP: {"schema": {"type": "string", "format": "binary"}}}, "description": "The record"},
        404: {"model": Error},
        409: {"model": Error},
    },
)
def record(name: str, desk: Desk, _who: Admin) -> Response:
    """One record, with all turns until now: gzipped JSON lines, as `muster replay FILE` reads them."""
    data = _recording(desk).read(name)
    if data is None:
        raise not_found("record", name)
    return Response(data, media_type=GZIP)


def _recording(desk: Service) -> Recording:
    if desk.recording is None:
        raise Refused(409, "this server records no turns: start it with --record FOLDER")
    return desk.recording
