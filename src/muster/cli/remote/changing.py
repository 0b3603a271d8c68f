"""Changes of queues and pools, as the command line says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.cli.remote.asking import answer, asked, client, ended
from muster.cli.remote.tables import show_pools, show_queues
from muster.cli.remote.where import Where
from muster.model.errors import InvalidValue
from muster.sdk import asking
from muster.sdk.asking import Ask
from muster.sdk.client import Client
from muster.sdk.errors import NotFound
from muster.sdk.shapes import Pool, Queue


def set_queue(
    where: Where,
    name: str,
    *,
    weight: float | None,
    quota: Sequence[str],
    keeps_quota: bool,
    cordoned: bool | None,
) -> int:
    """Make a queue, or change what is said of one; the exit code."""

    def run() -> int:
        said = pairs(quota, "quota", "cpu=100")
        with client(where) as to:
            before = _known(to, name)
            ask = asking.put_queue(
                name,
                weight=before.weight if weight is None else weight,
                quota={**(before.quota if keeps_quota else {}), **said},
                cordoned=before.cordoned if cordoned is None else cordoned,
            )
            answer(where, ask, to.fetch(ask), lambda queue, wide: show_queues([queue], wide))
        return 0

    return ended(run)


def _known(to: Client, name: str) -> Queue:
    try:
        return to.queue(name)
    except NotFound:
        return Queue(name=name)


def put_pool(
    where: Where, name: str, selector: Sequence[str], allowed: Mapping[str, bool], borrow_from: Sequence[str]
) -> int:
    """Make a pool, or replace one; the exit code."""

    def ask() -> Ask[Pool]:
        labels = pairs(selector, "node-selector", "team=vision")
        return asking.put_pool(name, node_selector=labels, borrowing_pools=borrow_from, **allowed)

    return asked(where, ask, lambda pool, wide: show_pools([pool], wide))


def pairs(given: Sequence[str], what: str, example: str) -> dict[str, str]:
    """What is said as NAME=VALUE, by name."""
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise InvalidValue(pair, f"a name and a value such as {example}", what)
    return dict(pair.split("=", 1) for pair in given)
