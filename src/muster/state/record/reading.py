"""Reads a record: first all of it, to know that it is whole and as it was written, then line by line."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from muster.model.errors import MusterError
from muster.state.record.lines import FORMAT, LONGEST_LINE, Language, Line
from muster.state.record.parts import Json, Unreadable

_TURN, _END = b'["turn",', b'["end",'


class RecordError(MusterError):
    """A file that cannot be replayed, and why."""


class Record:
    """A record that is whole. Iterate over its lines as often as you like; `line` is the number of the last one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file if file.seekable() else io.BytesIO(file.read())
        self.by = ""
        self.has_facts = True
        self.has_verdicts = True
        self.turns = 0
        self.line = 0
        self._types: Json = {}
        self._check()

    def language(self) -> Language:
        """How to read what stands in the lines; a new one for each time they are read."""
        try:
            return Language(self._types)
        except (AttributeError, LookupError, TypeError, ValueError) as err:
            raise self.error(_written_by(self.by, err)) from None

    def __iter__(self) -> Iterator[Line]:
        for data in self._lines():
            if self.line > 1 and not data.startswith(_END):
                yield self._parsed(data)

    def error(self, message: object) -> RecordError:
        """What is wrong at the line that was read last."""
        return RecordError(f"line {self.line} of the record: {message}")

    def reading(self, read: Callable[[Any], Any], data: Json) -> Any:
        """What `read` makes of a part of the last line."""
        try:
            return read(data)
        except Unreadable as err:
            raise self.error(_written_by(self.by, err)) from None

    # -- the file --------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Read everything once."""
        digest, last = hashlib.sha256(), b""
        for data in self._lines():
            if self.line == 1:
                self._read_header(data)
            digest.update(last)
            self.turns += data.startswith(_TURN)
            last = data
        if self.line == 0:
            raise RecordError("the file is empty: no record of Muster")
        if not last.startswith(_END):
            raise self._cut_off()
        match self._parsed(last):
            case ["end", int(turns), str(written)]:
                if (turns, written) != (self.turns, digest.hexdigest()):
                    raise RecordError("the record was changed after it was written: its digest says something else")
            case _:
                raise self.error("not the end of a record")

    def _lines(self) -> Iterator[bytes]:
        self._file.seek(0)
        self.line = 0
        with gzip.GzipFile(fileobj=self._file, mode="rb") as lines:
            while data := self._next(lines):
                self.line += 1
                if len(data) > LONGEST_LINE:
                    raise self.error(f"longer than {LONGEST_LINE >> 20} MiB, which no record is")
                yield data

    def _next(self, lines: gzip.GzipFile) -> bytes:
        try:
            return lines.readline(LONGEST_LINE + 1)
        except gzip.BadGzipFile as err:
            if self.line == 0:
                raise RecordError("not a record of Muster: `muster simulate FILE --record RECORD` writes one") from None
            raise RecordError(f"damaged after line {self.line} of the record: {err}") from None
        except EOFError:
            raise self._cut_off() from None
        except zlib.error as err:
            raise RecordError(f"damaged after line {self.line} of the record: {err}") from None

    def _cut_off(self) -> RecordError:
        return RecordError(f"the record breaks off after {self.turns} whole turns: its end is missing")

    def _read_header(self, data: bytes) -> None:
        match self._parsed(data):
            case {"muster": "record", "format": int(version), "by": str(by)} if version > FORMAT:
                raise RecordError(
                    f"format {version} of records, written by Muster {by}: this version reads up to {FORMAT}; "
                    "replay it with that version or a later one"
                )
            case {"muster": "record", "format": int(), "by": str(by), "facts": bool(facts), **rest}:
                self.by, self.has_facts, self._types = by, facts, rest.get("types")
                self.has_verdicts = rest.get("verdicts") is not False
            case _:
                raise RecordError("not a record of Muster: its first line is another")

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise self.error("not a line of JSON") from None


def _written_by(by: str, err: object) -> str:
    return f"{err} (it was written by Muster {by})"
