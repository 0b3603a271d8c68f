"""A stream of events that goes on where it broke off.

`Following` says what to ask next and which events a chunk of bytes completes; the clients carry it out. It knows the
last event that was handed on, so whoever reconnects gets each event once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from muster.sdk import asking
from muster.sdk.asking import Ask
from muster.sdk.retrying import BrokenOff
from muster.sdk.shapes import Event
from muster.sdk.sse import Message, Reader

SILENT_FOR_S = 45.0  # a server that follows says something every 15 s

_facts = msgspec.json.Decoder(dict[str, Any])


class Following:
    """Where one reader of events is."""

    def __init__(self, *, after: int | None, queue: str, job_set: str, job: str, follow: bool) -> None:
        self._after = after
        self._which = {"queue": queue, "job_set": job_set, "job": job}
        self.follow = follow
        self._reader = Reader()

    def ask(self) -> Ask[None]:
        """What to ask now: everything after the last event, on a new connection."""
        self._reader = Reader()
        return asking.events(
            after=self._after,
            queue=self._which["queue"],
            job_set=self._which["job_set"],
            job=self._which["job"],
            follow=self.follow,
        )

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete with this."""
        for message in self._reader.feed(chunk):
            if message.event == "broken":
                raise _broken_off(message)
            yield event_of(message)
            self._after = int(message.id)
        if self._reader.last_id.isdecimal():  # of the last event, or said by a server that has nothing to tell
            self._after = int(self._reader.last_id)


def _broken_off(message: Message) -> BrokenOff:
    """What went wrong at the server after it had begun to answer."""
    return BrokenOff(int(_facts.decode(message.data)["status"]), message.data.encode())


def event_of(message: Message) -> Event:
    """An event, as a server sends it."""
    facts = _facts.decode(message.data)
    known = {name: str(facts.get(name, "")) for name in ("job", "queue")}
    return Event(id=int(message.id), t=float(facts["t"]), event=message.event, facts=facts, **known)
