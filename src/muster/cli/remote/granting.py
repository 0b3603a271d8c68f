"""Tokens: what is said on the command line as rights, and what is printed of a new one."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cli.remote.asking import asked
from muster.cli.remote.where import Where
from muster.model.errors import InvalidValue
from muster.sdk import asking
from muster.sdk.shapes import NewToken

RIGHTS = ("submit", "cancel", "view")


def make_token(where: Where, name: str, *, admin: bool, may: Sequence[str], cluster: str) -> int:
    """Make a token and print it; the exit code."""
    return asked(
        where,
        lambda: asking.make_token(name, admin=admin, queues=rights_of(may), cluster=cluster),
        _print_token,
    )


def _print_token(made: NewToken, _wide: bool) -> None:
    print(made.token)  # and nothing else: it goes into a file


def rights_of(may: Sequence[str]) -> dict[str, list[str]]:
    """Rights by queue, of pairs such as vision=submit,cancel."""
    queues: dict[str, list[str]] = {}
    for pair in may:
        queue, _, rights = pair.partition("=")
        given = rights.split(",")
        if not queue or not all(right in RIGHTS for right in given):
            raise InvalidValue(pair, f"a queue and rights of {', '.join(RIGHTS)}: vision=submit,cancel", "may")
        queues.setdefault(queue, []).extend(right for right in given if right not in queues.get(queue, ()))
    return queues
