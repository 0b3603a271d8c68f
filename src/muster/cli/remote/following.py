"""`muster events`: one line for each thing that happens, as it happens."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from muster.cli.remote.asking import PATIENCE_S, client, ended
from muster.cli.remote.listing import FOLLOWING_PATIENCE_S
from muster.cli.remote.tables import amounts, clean, clock
from muster.cli.remote.where import Format, Where
from muster.sdk.shapes import Event

_IN_FRONT = ("t", "event", "job", "queue")


def print_events(where: Where, which: Mapping[str, str], *, after: int | None, follow: bool) -> int:
    """Print events; the exit code."""

    def run() -> int:
        since = 0 if after is None and not follow else after
        with client(where, FOLLOWING_PATIENCE_S if follow else PATIENCE_S) as to:
            for event in to.events(after=since, follow=follow, **which):
                print(as_line(event, where.output), flush=follow)
        return 0

    return ended(run)


def as_line(event: Event, output: Format) -> str:
    """An event as it is printed."""
    if output in (Format.JSON, Format.YAML):
        told = msgspec.json.encode({"id": event.id, **event.facts}).decode()
        return told if output is Format.JSON else f"- {told}"  # JSON in a list is YAML too, and one line
    facts = {name: value for name, value in event.facts.items() if name not in _IN_FRONT}
    front = f"{event.id:>8} " if output is Format.WIDE else ""
    about = f"{event.event:<10}  {event.job:<24}  {event.queue:<12}  {amounts(facts)}".rstrip()
    return f"{front}{clock(event.t)}  {clean(about)}"
