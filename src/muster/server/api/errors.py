"""What is wrong, in one form for every answer that is not good news.

{"error": {"message": "1 problem: …", "problems": [{"field": "jobs[0].cpu", "value": "-1", "allowed": "…"}]}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from muster.documents.problems import DocumentError
from muster.store.errors import Expired, StoreDown, StoreError

log = logging.getLogger(__name__)

_LATER = {"Retry-After": "1"}


class Problem(BaseModel):
    """One thing that is wrong with a request: where, what was given, and what is allowed."""

    field: str
    value: str = ""
    allowed: str = ""


class ErrorBody(BaseModel):
    """What went wrong, and every problem with the request if that is why."""

    message: str
    problems: list[Problem] = []


class Error(BaseModel):
    """An answer that is not good news."""

    error: ErrorBody


ANYWHERE: dict[int | str, dict[str, Any]] = {
    401: {"model": Error, "description": "No token, or one that is not known here"},
    403: {"model": Error, "description": "The token is not for this"},
    413: {"model": Error, "description": "The request is too long"},
    422: {"model": Error, "description": "The request makes no sense; every problem with it"},
    429: {"model": Error, "description": "Too many requests, or a queue that is full: try again later"},
    503: {"model": Error, "description": "The store cannot be reached: try again later"},
}
"""What every path may answer instead of good news."""


class Refused(Exception):
    """The request cannot be fulfilled, and why."""

    def __init__(self, status: int, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.problems = list(problems)


def not_found(what: str, name: str) -> Refused:
    """There is no such thing."""
    return Refused(404, f"there is no {what} {name!r}")


def register(app: FastAPI) -> None:
    """Have every kind of error answered in our form."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(DocumentError, _invalid)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _by_status)
    app.add_exception_handler(Expired, _store_failed)
    app.add_exception_handler(StoreDown, _store_failed)
    app.add_exception_handler(TimeoutError, _late)
    app.add_exception_handler(Exception, _broken)


def answer(
    status: int, message: str, problems: Sequence[Problem] = (), headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The answer."""
    body = Error(error=ErrorBody(message=message, problems=list(problems)))
    return JSONResponse(body.model_dump(), status_code=status, headers=headers)


async def _refused(_request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, Refused)
    headers = _LATER if err.status in (429, 503) else None
    return answer(err.status, err.message, err.problems, headers)


async def _invalid(_request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, DocumentError)
    problems = [Problem(field=it.path or "body", allowed=it.message) for it in err.problems]
    return answer(422, _in_words(problems), problems)


async def _malformed(_request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, RequestValidationError)
    problems = [_problem(it) for it in err.errors()]
    return answer(422, _in_words(problems), problems)


def _problem(told: dict[str, Any]) -> Problem:
    place = [str(part) for part in told["loc"] if part not in ("body", "query", "path", "header")]
    value = told.get("input")
    shown = "" if told["type"] == "missing" else repr(value)[:200]
    return Problem(field=".".join(place) or "body", value=shown, allowed=told["msg"])


def _in_words(problems: Sequence[Problem]) -> str:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    given = f" {first.value}" if first.value else ""
    return f"{first.field}:{given} {first.allowed}{more}".replace(":  ", ": ")


async def _by_status(request: Request, err: Exception) -> JSONResponse:
    assert isinstance(err, HTTPException)
    path = request.url.path
    if err.status_code == 404:
        allowed = "a path of /docs; a name in it has letters, digits, '.', '_' and '-', and no '/'"
        message = f"there is nothing at {path}: {allowed}"
        return answer(404, message, [Problem(field="path", value=path, allowed=allowed)])
    if err.status_code == 405:
        allowed = (err.headers or {}).get("Allow", "")
        problem = Problem(field="method", value=request.method, allowed=allowed)
        return answer(405, f"{request.method} is not allowed at {path}: {allowed} is", [problem], err.headers)
    if err.status_code == 400:  # FastAPI's word for a body that is not even text
        return answer(422, "body: not JSON", [Problem(field="body", allowed="JSON in UTF-8")])
    return answer(err.status_code, str(err.detail), headers=err.headers)


async def _store_failed(_request: Request, err: Exception) -> JSONResponse:
    status, message = _of_the_store(err)
    return answer(status, message, headers=_LATER if status == 503 else None)


def in_midstream(err: StoreError) -> dict[str, Any]:
    """What to say where a status was sent long ago: the status there would have been, and the error."""
    status, message = _of_the_store(err)
    return {"status": status, **Error(error=ErrorBody(message=message)).model_dump()}


def _of_the_store(err: Exception) -> tuple[int, str]:
    if isinstance(err, Expired):
        return 410, f"{err}: begin again without a cursor"
    return 503, f"the store cannot be reached, nothing was changed: {err}"


async def _late(_request: Request, _err: Exception) -> JSONResponse:
    message = "the store takes too long: what you asked for will be done once it answers; asking again does no harm"
    return answer(503, message, headers=_LATER)


async def _broken(request: Request, err: Exception) -> JSONResponse:
    log.error("%s %s failed", request.method, request.url.path, exc_info=err)
    return answer(500, "the server made a mistake; its log says more")
