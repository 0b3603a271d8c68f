"""Carries out a page of documentation: files are written, commands typed, and what they print is compared.

In a page, a `console` block has commands after `$ ` (further lines of one after `> `) and under each what it prints. A
block of any other language whose paragraph before it ends in a name in backquotes and a colon is a file of that name.
`…` stands for anything within a line, a line of its own for any lines. How many spaces there are does not matter:
columns are as wide as names are long.

A block under `<!-- first terminal -->`, or whichever, is typed there: it goes on while the page does, once all that is
shown has been printed. `^C` there interrupts it, and waits for its end.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

PATIENCE_S = 120.0
ANYTHING = "…"
INTERRUPT = "^C"

_BLOCK = re.compile(
    r"^(?:<!-- (?P<terminal>\w+) terminal -->\n+)?"
    r"(?:[^\n]*`(?P<file>[\w./-]+)`:\n\n)?"
    r"```(?P<language>\w+)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Something to write down."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command, and what the page says it prints."""

    line: int  # of the page
    command: str
    shown: tuple[str, ...]
    terminal: str  # one that it stays in; empty: the one that is used all the time


def steps(page: str) -> Iterator[File | Typed]:
    """What a page has its readers do, in order."""
    for block in _BLOCK.finditer(page):
        if block["language"] == "console":
            first = page.count("\n", 0, block.start("body")) + 1
            yield from _typed(block["body"].splitlines(), first, block["terminal"] or "")
        elif block["file"]:
            yield File(name=block["file"], text=block["body"])


def _typed(lines: list[str], first: int, terminal: str) -> Iterator[Typed]:
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ") or line == INTERRUPT]
    assert starts[:1] == [0], f"line {first}: a console block begins with a command after `$ `"
    for at, until in zip(starts, [*starts[1:], len(lines)], strict=True):
        more = [line for line in lines[at + 1 : until] if line.startswith("> ")]
        command = "\n".join([lines[at].removeprefix("$ "), *(line[2:] for line in more)])
        shown = tuple(lines[at + 1 + len(more) : until])
        yield Typed(line=first + at, command=command, shown=shown, terminal=terminal)


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether that was printed which is shown."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == ANYTHING else _line(line) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(_plain(line) + "\n" for line in printed)) is not None


def _line(shown: str) -> str:
    return ".*".join(re.escape(part) for part in _plain(shown).split(ANYTHING))


def _plain(line: str) -> str:
    return " ".join(line.split())


class Terminal:
    """A shell, in a folder, with an environment."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[bytes] = self._process.stdin
        self._out = self._process.stdout.fileno()
        self._rest = b""
        self._typed = 0

    def type(self, command: str) -> None:
        """Type a command; `$?` is that of the one before, and it reads nothing."""
        self._typed += 1
        line = f'(exit "${{_code:-0}}")\n{{ {command}\n}} </dev/null\n_code=$?; echo "{self._mark}"\n'
        self._in.write(line.encode())
        self._in.flush()

    @property
    def _mark(self) -> str:
        return f"--- that was {self._typed}"

    def lines(self) -> Iterator[str]:
        """What the command prints, line by line, until it ends."""
        while not (line := self._next()).endswith(self._mark):
            yield line
        if rest := line.removesuffix(self._mark):  # it did not end its last line
            yield rest

    def _next(self) -> str:
        until = time.monotonic() + PATIENCE_S
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._out], [], [], max(until - time.monotonic(), 0.0))
            assert ready, f"nothing more came in {PATIENCE_S:g} s"
            chunk = os.read(self._out, 1 << 16)
            assert chunk, "the shell has ended"
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def interrupt(self) -> None:
        """Ctrl-C: for what runs in the shell, not for the shell."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGINT)

    def close(self) -> None:
        """End the shell, and what still runs in it."""
        self.interrupt()
        self._in.close()
        assert self._process.stdout is not None
        while select.select([self._out], [], [], PATIENCE_S)[0] and os.read(self._out, 1 << 16):
            pass
        self._process.stdout.close()
        self._process.wait()
