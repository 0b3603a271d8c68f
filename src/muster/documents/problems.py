"""What is wrong with a file: every problem with its key, its line and what is allowed.

Problems are collected, not raised one by one, so that people see all of them together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from muster.model.errors import MusterError

MOST_PROBLEMS = 1000  # a file with more is not the file somebody meant; reading on would only take time

_SHOWN = 80  # characters of a refused value that a problem repeats
_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_./<-]{1,80}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to mend: its key ("jobs[0].cpu", "" for the whole file), its line from 1 (0: none), what is wrong."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        return ": ".join(part for part in (line, self.path, self.message) if part)


class DocumentError(MusterError):
    """A file that cannot be used: all its problems, in the order of their lines."""

    def __init__(self, problems: tuple[Problem, ...], name: str = "") -> None:
        # Both go to Exception, so that the error survives pickling and copying.
        super().__init__(problems, name)
        self.problems = problems
        self.name = name

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Problems:
    """Collects the problems of one file; kinds of files raise errors of their own."""

    raises: type[DocumentError] = DocumentError

    def __init__(self, name: str) -> None:
        self.name = name
        self._found: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, path: str, line: int, message: str) -> None:
        """Note one problem; gives up on a file that has too many."""
        self._found.append(Problem(path, line, message))
        if len(self._found) == MOST_PROBLEMS:
            self.stop("", 0, f"stopped after {MOST_PROBLEMS} problems: there may be more")

    def refuse(self, path: str, line: int, value: str, allowed: str) -> None:
        """Note a value that is not allowed; `value` as `quoted` shows it."""
        self.add(path, line, f"{value} is not allowed: {allowed}")

    def stop(self, path: str, line: int, message: str) -> NoReturn:
        """Note a problem behind which nothing can be read."""
        self._found.append(Problem(path, line, message))
        raise self.error()

    def error(self) -> DocumentError:
        """Everything found so far, as one error; what concerns the whole file comes last."""
        in_order = sorted(self._found, key=lambda found: (not found.line, found.line, found.path, found.message))
        return self.raises(tuple(dict.fromkeys(in_order)), self.name)


def quoted(text: str) -> str:
    """Text from a file as a problem may show it: on one line, in quotes, not too long."""
    shown = repr(text[:_SHOWN])
    return shown if len(text) <= _SHOWN and len(shown) <= _SHOWN + 2 else f"{shown[: _SHOWN - 3]}...'"


def joined(path: str, key: str) -> str:
    """The path of a key: `jobs[0]` and `cpu` give `jobs[0].cpu`."""
    if not _SIMPLE_KEY.fullmatch(key):
        return f"{path}[{quoted(key)}]"
    return f"{path}.{key}" if path else key
