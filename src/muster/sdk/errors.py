"""What can go wrong when a server is asked, as one tree. Each says what to do next.

MusterError
├── ServerUnreachable     nobody answers
└── ApiError              the server refuses, and says why
    ├── Unauthorized      401 and 403: without the right token
    ├── NotFound          404
    └── Expired           410: an event that is no longer kept
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from muster.model.errors import MusterError


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a request: where, what was given, and what is allowed."""

    field: str
    value: str = ""
    allowed: str = ""

    def __str__(self) -> str:
        given = f"{self.value} is not allowed: " if self.value else ""
        return f"{self.field}: {given}{self.allowed}"


class ServerUnreachable(MusterError):
    """Nobody answers at the server's address."""

    def __init__(self, server: str, because: str) -> None:
        super().__init__(server, because)
        self.server = server
        self.because = because

    def __str__(self) -> str:
        return (
            f"{self.server} cannot be reached: {self.because}. "
            "`muster server` starts one here; MUSTER_SERVER or `muster context use` says where another is."
        )


class ApiError(MusterError):
    """The server refused: its status, why, and every problem with the request. Then nothing was changed."""

    def __init__(self, status: int, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(status, message, tuple(problems))
        self.status = status
        self.message = message
        self.problems = tuple(problems)

    def __str__(self) -> str:
        said = "\n".join(map(str, self.problems)) if len(self.problems) > 1 else self.message
        advice = self.what_next()
        return f"{said}\n{advice}" if advice else said

    def what_next(self) -> str:
        """What can be done about it, if that is known."""
        if self.status == 429:
            return "Try again later, or cancel what need not wait any more."
        if self.status >= 500:
            return "If that goes on, the server's log says more."
        return ""


class Unauthorized(ApiError):
    """The token is missing, wrong, or not enough for this."""

    def what_next(self) -> str:
        if self.status == 403:
            return "An admin can make a token that may do this: `muster token make`."
        return (
            "Give a token: MUSTER_TOKEN, `--token-file`, or `muster context set NAME --server URL --token-file FILE`."
        )


class NotFound(ApiError):
    """There is no such thing, or it was over for so long that it is no longer kept."""

    def what_next(self) -> str:
        return "What is there: `muster jobs`, `muster queues`, `muster nodes`, `muster token list`."


class Expired(ApiError):
    """What is asked for is no longer kept."""

    def what_next(self) -> str:
        return "From the oldest that is kept: `after=0`, `--after 0`."


class _Body(msgspec.Struct):
    message: str
    problems: list[Problem] = []


class _Error(msgspec.Struct):
    error: _Body


_KINDS: dict[int, type[ApiError]] = {401: Unauthorized, 403: Unauthorized, 404: NotFound, 410: Expired}
_SHOWN = 200  # characters of an answer that is not ours, such as a proxy's


def error_of(status: int, body: bytes) -> ApiError:
    """The error that an answer is."""
    kind = _KINDS.get(status, ApiError)
    try:
        told = msgspec.json.decode(body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = " ".join(body.decode(errors="replace").split())[:_SHOWN]
        return kind(status, f"the answer was {status}, and not from a Muster server: {text or 'nothing else'}")
    return kind(status, told.message, told.problems)
