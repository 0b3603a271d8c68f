"""Server-sent events: bytes in, however they were cut; messages out.

What the HTML standard says of the format, without what only browsers need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream: its kind, what it says, and the last id that was given by then."""

    event: str
    data: str
    id: str


class Reader:
    """Reads one stream."""

    def __init__(self) -> None:
        self._rest = b""  # of a line whose end has not come
        self._is_first = True
        self._ended_in_cr = False
        self._event, self._id = "", ""
        self._data: list[str] = []
        self.last_id = ""  # where to go on; a server may say it without an event

    def feed(self, chunk: bytes) -> list[Message]:
        """The messages that are complete with this."""
        if not chunk:
            return []
        if self._ended_in_cr and chunk.startswith(b"\n"):  # the other half of a line end that counted already
            chunk = chunk[1:]
            self._ended_in_cr = False
            if not chunk:
                return []
        self._ended_in_cr = chunk.endswith(b"\r")
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        found = (self._take(line) for line in lines)
        return [message for message in found if message is not None]

    def _take(self, line: bytes) -> Message | None:
        """One line; the message that it ends, if it does."""
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._ended()
        name, _, value = line.decode(errors="replace").partition(":")
        self._note(name, value.removeprefix(" "))
        return None

    def _note(self, name: str, value: str) -> None:
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:  # a comment (its name is empty), a field that nobody knows
                pass

    def _ended(self) -> Message | None:
        event, data = self._event or "message", self._data
        self._event, self._data = "", []
        self.last_id = self._id
        return Message(event, "\n".join(data), self._id) if data else None
