"""YAML text as values that remember their line; refuses whatever could hurt before it does."""

from __future__ import annotations

import os
import re
import stat
from itertools import islice
from typing import NoReturn

import yaml

from muster.documents.building import Building
from muster.documents.problems import Problems, quoted
from muster.documents.values import Value

MOST_BYTES = 64 << 20
MOST_DIRECTIVES = 16  # the parser compares each %TAG with every other

_DIRECTIVE = re.compile(rb"(?:^|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9])%")  # after each line break that YAML knows
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TOO_LARGE = f"too large: at most {MOST_BYTES >> 20} MiB are allowed"


def read_file(path: str, problems: Problems) -> bytes:
    """The bytes of a file, a pipe or /dev/stdin; never reads more than MOST_BYTES of them."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if stat.S_ISREG(about.st_mode) and about.st_size > MOST_BYTES:
                problems.stop("", 0, _TOO_LARGE)
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as err:  # ValueError: a path with a null character
        reason = err.strerror if isinstance(err, OSError) else None
        problems.stop("", 0, f"{quoted(path)} cannot be read: {reason or err}")


def encoded(text: str, problems: Problems) -> bytes:
    """The text as the bytes of a file."""
    try:
        return text.encode()
    except UnicodeEncodeError as err:
        line = text.count("\n", 0, err.start) + 1
        problems.stop("", line, f"not UTF-8: half a character, {quoted(text[err.start])}")


def read(data: bytes, problems: Problems, what: str = "a mapping with keys is needed") -> Value:
    """The one document in `data`; `what` says what it should be.

    Stops at what cannot be read on; notes other problems and goes on.
    """
    return _built(data, Building(problems, what))[0]


def read_stream(data: bytes, problems: Problems, what: str) -> list[Value]:
    """The documents in `data`, with `---` between them; empty ones do not count."""
    return _built(data, Building(problems, what, is_stream=True))


def _built(data: bytes, building: Building) -> list[Value]:
    problems = building.problems
    _check_text(data, problems)
    try:
        for event in yaml.parse(data, Loader=_LOADER):
            building.take(event)
    except yaml.reader.ReaderError as err:
        problems.stop("", _line_at(data, err.position), f"not YAML: {err.reason}")
    except yaml.MarkedYAMLError as err:
        _stop_at_mark(err, problems)
    except (yaml.YAMLError, ValueError, OverflowError) as err:  # the last two: PyYAML without libyaml
        problems.stop("", 0, f"not YAML: {err}")
    return building.finished()


def _check_text(data: bytes, problems: Problems) -> None:
    if len(data) > MOST_BYTES:
        problems.stop("", 0, _TOO_LARGE)
    try:
        data.decode()
    except UnicodeDecodeError as err:
        problems.stop("", _line_at(data, err.start), f"not UTF-8: byte {data[err.start]:#04x} is not allowed here")
    if len(list(islice(_DIRECTIVE.finditer(data), MOST_DIRECTIVES + 1))) > MOST_DIRECTIVES:
        problems.stop("", 0, f"too many lines begin with %: at most {MOST_DIRECTIVES} are allowed")


def _line_at(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _stop_at_mark(err: yaml.MarkedYAMLError, problems: Problems) -> NoReturn:
    mark = err.problem_mark or err.context_mark
    what = ", ".join(part for part in (err.context, err.problem) if part)
    if mark is None:
        problems.stop("", 0, f"not YAML: {what}")
    problems.stop("", mark.line + 1, f"not YAML: {what} (column {mark.column + 1})")
