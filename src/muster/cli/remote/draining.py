"""`muster drain`: has a node emptied and, if told to wait, says who left until nobody is there."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection

from muster.cli.remote.asking import FAILED, answer, as_body, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S
from muster.cli.remote.tables import clean, show_node
from muster.cli.remote.where import Where
from muster.documents.scalars import milliseconds
from muster.documents.values import Scalar, resolved
from muster.model.errors import InvalidValue
from muster.sdk import asking
from muster.sdk.asking import MOST_GRACE_S
from muster.sdk.client import Client
from muster.sdk.shapes import Node


def drain_node(where: Where, node: str, grace: str, *, every_s: float, waits: bool) -> int:
    """Drain a node and print it; the exit code."""

    def run() -> int:
        ask = asking.drain(node, grace_s=_seconds(grace))
        with client(where, FOLLOWING_PATIENCE_S) as to:
            body = to.fetch(ask)
            if not waits:
                answer(where, ask, body, show_node)
                return 0
            last = _watched(to, ask.answer(body), every_s)
            if last is None:
                print(f"{node} is gone from its cluster", file=sys.stderr)
                return FAILED
            answer(where, ask, as_body(last), show_node)
        if last.drain is None:
            print(f"{node} is no longer drained: somebody uncordoned it", file=sys.stderr)
        return 0 if last.is_drained else FAILED

    return ended(run)


def _seconds(grace: str) -> float:
    grace_ms = milliseconds(Scalar(0, resolved(grace), grace))
    if grace_ms is None or not 0 <= grace_ms <= MOST_GRACE_S * 1000:
        raise InvalidValue(grace, "a duration of up to 30 days such as 90s, 5m or 2h", "--grace")
    return grace_ms / 1000


def _watched(to: Client, first: Node, every_s: float) -> Node | None:
    """The node once it is empty, or nobody wants it to be any more; None: it is no more."""
    node = first
    there = _there(node)
    _tell(f"{node.name}: {len(there)} jobs to leave", there)
    while node.drain is not None and not node.is_drained:
        time.sleep(every_s)
        found = next((it for it in to.nodes() if it.name == first.name), None)
        if found is None:
            return None
        node = found
        now = _there(node)
        if gone := there - now:
            _tell(f"{node.name}: {len(now)} jobs left; gone", gone)
        there = now
    return node


def _there(node: Node) -> set[str]:
    return {*node.jobs, *(node.drain.leaving if node.drain is not None else ())}


def _tell(what: str, jobs: Collection[str]) -> None:
    named = ": " + " ".join(sorted(jobs)) if jobs else ""
    print(clean(what + named), file=sys.stderr, flush=True)
