"""What can go wrong between us and an API server, as one tree.

KubernetesError
├── Unreachable         no answer, or half of one: nobody knows whether a write was done
├── NoCredentials       there is nothing to prove who we are with: a plugin failed, a file is gone
└── Refused             the server answered, and did not do it
    ├── Unauthorised        401: it does not know us
    ├── Forbidden           403: it knows us, and we may not
    ├── NotFound            404
    ├── AlreadyExists       409
    ├── Conflict            409: the object is no longer what the write was based on
    ├── Expired             410: list again
    ├── Invalid             422
    ├── Busy                429 or 503: later
    └── BudgetForbids       429: an eviction that a disruption budget does not allow now
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.model.errors import MusterError

MOST_WAIT_S = 30.0


class KubernetesError(MusterError):
    """The root of them."""


class Unreachable(KubernetesError):
    """The server gave no whole answer. A write may have been done, or not."""


class NoCredentials(KubernetesError):
    """Nothing to prove who we are with."""


class Cause(msgspec.Struct, frozen=True, gc=False):
    """One of the reasons of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """More about a refusal."""

    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """How an API server says that something was not done."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None

    def has_cause(self, reason: str) -> bool:
        """Whether this is among its reasons."""
        return self.details is not None and any(cause.reason == reason for cause in self.details.causes)


class Refused(KubernetesError):
    """The server answered, and did not do what was asked."""

    def __init__(self, status: Status, wait_s: float = 0.0) -> None:
        super().__init__(status, wait_s)
        self.status = status
        self.wait_s = wait_s  # how long the server asks to be left alone

    def __str__(self) -> str:
        return f"{self.status.code} {self.status.reason}: {self.status.message}".strip(" :")


class Unauthorised(Refused):
    """401: it does not know us."""


class Forbidden(Refused):
    """403: we may not."""


class NotFound(Refused):
    """404: there is no such object, or no such kind."""


class AlreadyExists(Refused):
    """409: there is one of that name."""


class Conflict(Refused):
    """409: the object is no longer what the write was based on."""


class Expired(Refused):
    """410: the server has forgotten that version, and cannot go on from it."""


class Invalid(Refused):
    """422: the object breaks a rule of its kind."""


class Busy(Refused):
    """429 or 503: the server has not looked at the request, and may later."""


class BudgetForbids(Refused):
    """429: a disruption budget does not allow this eviction now."""


_BY_CODE: Mapping[int, type[Refused]] = {
    401: Unauthorised,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: Busy,
    503: Busy,
}


_status = msgspec.json.Decoder(Status)


def refusal(code: int, content: bytes, retry_after: str = "") -> Refused:
    """What an answer that is no success means."""
    try:
        status = _status.decode(content)
    except msgspec.MsgspecError:  # a proxy's page, or nothing at all
        status = Status(message=content[:200].decode(errors="replace"))
    return refused(msgspec.structs.replace(status, code=status.code or code), retry_after)


def refused(status: Status, retry_after: str = "") -> Refused:
    """The error that a status is."""
    return _kind_of(status)(status, _wait_s(status, retry_after))


def _kind_of(status: Status) -> type[Refused]:
    if status.code == 409 and status.reason == "AlreadyExists":
        return AlreadyExists
    if status.code == 429 and status.has_cause("DisruptionBudget"):
        return BudgetForbids
    return _BY_CODE.get(status.code, Refused)


def _wait_s(status: Status, retry_after: str) -> float:
    if retry_after.isdecimal():
        return min(float(retry_after), MOST_WAIT_S)
    return min(float(status.details.retry_after_seconds), MOST_WAIT_S) if status.details else 0.0
