"""Changes of queues and pools, as the command line says them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.cli.remote.asking import answer, asked, client, ended
from muster.cli.remote.tables import show_pools, show_queues
from muster.cli.remote.where import Where
from muster.documents.scalars import milliseconds_in
from muster.model.errors import InvalidValue
from muster.model.pools import DEFAULT_NAME
from muster.sdk import asking
from muster.sdk.asking import Ask
from muster.sdk.client import Client
from muster.sdk.errors import NotFound
from muster.sdk.shapes import Pool, Queue

OFF = "off"


def set_queue(
    where: Where,
    name: str,
    *,
    weight: float | None,
    quota: Sequence[str],
    keeps_quota: bool,
    cordoned: bool | None,
    excess_budget: str = "",
    default_time_limit: str = "",
    default_expected_runtime: str = "",
    owners: Sequence[str] | None = None,
    labels: Sequence[str] = (),
    keeps_labels: bool = True,
) -> int:
    """Make a queue, or change what is said of one; the exit code. Empty texts say nothing, `off` takes away, and owners
    are said all together."""

    def run() -> int:
        said = pairs(quota, "quota", "cpu=100")
        named = pairs(labels, "label", "team=vision")
        budget = _budget(excess_budget)
        limit = seconds_of(default_time_limit, "--default-time-limit")
        expected = seconds_of(default_expected_runtime, "--default-expected-runtime")
        with client(where) as to:
            before = _known(to, name)
            ask = asking.put_queue(
                name,
                weight=before.weight if weight is None else weight,
                quota={**(before.quota if keeps_quota else {}), **said},
                cordoned=before.cordoned if cordoned is None else cordoned,
                excess_budget=budget if excess_budget else before.excess_budget,
                default_time_limit=limit if default_time_limit else before.default_time_limit,
                default_expected_runtime=expected if default_expected_runtime else before.default_expected_runtime,
                owners=before.owners if owners is None else [owner for owner in owners if owner != OFF],
                labels={**(before.labels if keeps_labels else {}), **named},
            )
            answer(where, ask, to.fetch(ask), lambda queue, wide: show_queues([queue], wide))
        return 0

    return ended(run)


def seconds_of(text: str, option: str) -> float | None:
    """The seconds that an option says; None if it says off, or nothing."""
    if text in ("", OFF):
        return None
    span_ms = milliseconds_in(text)
    if span_ms is None:
        raise InvalidValue(text, f"a duration such as 30m, 12h or 1d, or {OFF}", option)
    return span_ms / 1000


def _budget(text: str) -> float | None:
    """The excess budget that was said; None if off, or nothing."""
    if text in ("", OFF):
        return None
    try:
        budget = float(text)
    except ValueError:
        budget = -1.0
    if not 0 <= budget < float("inf"):
        raise InvalidValue(text, f"a number of usage × minutes from 0 on, or {OFF}", "--excess-budget")
    return budget


def _known(to: Client, name: str) -> Queue:
    try:
        return to.queue(name)
    except NotFound:
        return Queue(name=name)


def put_pool(
    where: Where,
    name: str,
    selector: Sequence[str],
    allowed: Mapping[str, bool],
    borrow_from: Sequence[str],
    keep: Sequence[str],
) -> int:
    """Make a pool, or replace one; the exit code."""

    def ask() -> Ask[Pool]:
        labels = pairs(selector, "node-selector", "team=vision")
        if not labels and name != DEFAULT_NAME:
            raise InvalidValue("", "a label such as team=vision: only the pool default takes none", "--node-selector")
        kept = pairs(keep, "keep", "cpu=8")
        return asking.put_pool(name, node_selector=labels, borrowing_pools=borrow_from, keep=kept, **allowed)

    return asked(where, ask, lambda pool, wide: show_pools([pool], wide))


def pairs(given: Sequence[str], what: str, example: str) -> dict[str, str]:
    """What is said as NAME=VALUE, by name."""
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise InvalidValue(pair, f"a name and a value such as {example}", what)
    return dict(pair.split("=", 1) for pair in given)
