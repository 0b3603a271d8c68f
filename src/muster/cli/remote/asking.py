"""Asks a server, prints what it answers, and turns what goes wrong into words and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from muster.cli.ending import BAD_INPUT, ending_well
from muster.cli.remote.tables import as_yaml, clean
from muster.cli.remote.where import Format, Where
from muster.model.errors import InvalidValue, MusterError
from muster.sdk.asking import Ask
from muster.sdk.client import Client
from muster.sdk.contexts import ContextsError, Said, meant
from muster.sdk.errors import ApiError, ServerUnreachable

T = TypeVar("T")

FAILED = 1
UNREACHABLE = 3

PATIENCE_S = 3.0  # somebody sits in front of it

Show = Callable[[T, bool], None]
"""Prints an answer for people; the second argument: with all columns."""


def asked(where: Where, ask: Callable[[], Ask[T]], show: Show[T]) -> int:
    """Ask one question and print the answer; the exit code."""

    def run() -> int:
        question = ask()
        with client(where) as to:
            answer(where, question, to.fetch(question), show)
        return 0

    return ended(run)


def answer(where: Where, ask: Ask[T], body: bytes, show: Show[T]) -> None:
    """Print an answer."""
    if where.output in (Format.TABLE, Format.WIDE):
        show(ask.answer(body), where.output is Format.WIDE)
    else:
        print_plain(where, body)


def print_plain(where: Where, body: bytes) -> None:
    """Print JSON as it came, or the same as YAML."""
    if where.output is Format.JSON:
        print(msgspec.json.format(body.decode(), indent=2))
    else:
        print(as_yaml(msgspec.json.decode(body)), end="")


@contextmanager
def client(where: Where, patience_s: float = PATIENCE_S) -> Iterator[Client]:
    """A connection to the server that is meant."""
    to = meant(Said(server=where.server, token_file=where.token_file, context=where.context))
    with Client(to, patience_s=patience_s) as connected:
        yield connected


def tried(said: Mapping[str, str], ask: Callable[[], Ask[T]], timeout_s: float) -> T | None:
    """The answer to a question if there is one at once; nobody hears of it if not."""
    try:
        with Client(meant(Said(**said)), timeout_s=timeout_s, patience_s=0.0) as to:
            return to.do(ask())
    except MusterError:
        return None


def ended(command: Callable[[], int]) -> int:
    """The exit code of a command; what goes wrong is told in words."""

    def run() -> int:
        try:
            return command()
        except ServerUnreachable as err:
            return _told(err, UNREACHABLE)
        except (InvalidValue, ContextsError) as err:
            return _told(err, BAD_INPUT)
        except ApiError as err:
            return _told(err, BAD_INPUT if err.status == 422 else FAILED)
        except MusterError as err:
            return _told(err, FAILED)

    return ending_well(run)


def _told(err: Exception, code: int) -> int:
    for line in str(err).splitlines():
        print(clean(line), file=sys.stderr)
    return code


def as_body(value: Any) -> bytes:
    """An answer that was put together here, as the server would have sent it."""
    return msgspec.json.encode(value)
