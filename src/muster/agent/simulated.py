"""An agent without machines: nodes that it makes up, and tasks that take their time and end.

A job says how by its command: `sleep SECONDS`, `exit CODE`; else it takes `--seconds` and succeeds. Attempts are
written down in a ledger before they begin, one line each, so that an agent that comes back after a crash knows what it
had and nothing is begun twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import msgspec

from muster.agent.calling import Untold
from muster.agent.protocol import Lease, NodeReport, Piece, Read, Report, Result, Stop

_encode = msgspec.json.Encoder().encode
_NUMBER = re.compile(r"\d+(\.\d+)?")

Key = tuple[str, int]


@dataclass(slots=True)
class Attempt:
    """One attempt that is here, and what will end it."""

    report: Report
    end: asyncio.TimerHandle | None = None


class Ledger:
    """What was begun, what ended and what the server was told of, on disk: one JSON list in a line."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._lines: list[bytes] = []

    def untold(self) -> dict[Key, str]:
        """Every attempt that was begun and not told to be over, and how it ended ("" if it did not)."""
        found: dict[Key, str] = {}
        for what, key, result in self._read():
            if what == "told":
                found.pop(key, None)
            elif what == "ended" or key not in found:
                found[key] = result
        return found

    def begun(self) -> set[Key]:
        """Every attempt that was ever begun."""
        return {key for what, key, _ in self._read() if what == "began"}

    def _read(self) -> Iterator[tuple[str, Key, str]]:
        for line in [] if self._path is None else self._path.read_bytes().splitlines():
            try:
                what, job, attempt, result = json.loads(line)
            except ValueError:
                continue  # the machine went down in the middle of the line: nobody was told of it
            yield what, (job, attempt), result

    def note(self, what: str, key: Key, result: str = "") -> None:
        """Have a line written with the next `settle`."""
        if self._file is not None:
            self._lines.append(_encode([what, *key, result]) + b"\n")

    def settle(self) -> None:
        """All lines are on disk when this returns."""
        if self._file is not None and self._lines:
            os.write(self._file, b"".join(self._lines))
            os.fdatasync(self._file)
            self._lines = []


class Simulated:
    """Nodes and tasks that are not there."""

    def __init__(self, nodes: list[NodeReport], *, seconds: float, ledger: Ledger) -> None:
        self._nodes = nodes
        self._seconds = seconds
        self._ledger = ledger
        self._begun = ledger.begun()
        self._here: dict[Key, Attempt] = {}
        self.untold = Untold()
        for key, result in ledger.untold().items():
            if not result:  # what ran when the agent went down is gone
                ledger.note("ended", key, "lost")
            self._here[key] = Attempt(_ended(key, result or "lost"))
        ledger.settle()

    # -- what the caller asks for --------------------------------------------------------------------------

    def nodes(self) -> list[NodeReport]:
        """All nodes."""
        return self._nodes

    def has(self) -> list[Report]:
        """Every attempt that is here, or that ended and was not told yet."""
        return [attempt.report for attempt in self._here.values()]

    def start(self, leases: Sequence[Lease]) -> None:
        """Begin attempts, each at most once: they are in the ledger before they run."""
        new = [lease for lease in leases if (lease.job, lease.attempt) not in self._begun]
        for lease in new:
            self._ledger.note("began", (lease.job, lease.attempt))
        self._ledger.settle()
        for lease in new:
            key = (lease.job, lease.attempt)
            self._begun.add(key)
            seconds, result = script_of(lease.launch, self._seconds)
            timer = asyncio.get_running_loop().call_later(seconds, self._end, key, result)
            self._here[key] = Attempt(Report(job=lease.job, attempt=lease.attempt, stage="running"), timer)
        for lease in leases:
            self._run_on(lease)

    def _run_on(self, lease: Lease) -> None:
        key = (lease.job, lease.attempt)
        attempt = self._here.get(key)
        if attempt is None:  # over, and the server knows
            return
        if attempt.report.stage != "ended":
            attempt.report = Report(job=lease.job, attempt=lease.attempt, stage="running", revision=lease.revision)
        self._say(key)

    def stop(self, stops: Sequence[Stop]) -> None:
        """End attempts."""
        for stop in stops:
            key = (stop.job, stop.attempt)
            attempt = self._here.get(key)
            if attempt is None or attempt.report.stage != "ended":
                if attempt is not None and attempt.end is not None:
                    attempt.end.cancel()
                self._begun.add(key)
                self._end(key, "stopped")
            else:
                self._say(key)

    def settle(self) -> None:
        """What is about to be told is on disk."""
        self._ledger.settle()

    def told(self, reports: Sequence[Report]) -> None:
        """The server knows these: those that are over are forgotten."""
        for report in reports:
            if report.stage == "ended":
                self._here.pop((report.job, report.attempt), None)
                self._ledger.note("told", (report.job, report.attempt))

    def read(self, asked: Read) -> Piece:
        """Nothing: tasks that are not there write nothing."""
        return Piece(number=asked.number, is_over=True)

    # -- lives ---------------------------------------------------------------------------------------------

    def _end(self, key: Key, result: str) -> None:
        self._ledger.note("ended", key, result)
        self._here[key] = Attempt(_ended(key, result))
        self._say(key)

    def _say(self, key: Key) -> None:
        self.untold.tell(self._here[key].report)


def _ended(key: Key, result: str) -> Report:
    kind, _, code = result.partition(" ")
    exit_code = int(code) if code else None
    message = f"exit code {code}" if kind == "failed" and code else ""
    return Report(
        job=key[0], attempt=key[1], stage="ended", result=cast(Result, kind), message=message, exit_code=exit_code
    )


def script_of(launch: Mapping[str, Any], seconds: float) -> tuple[float, str]:
    """For how long an attempt with this launch runs, and how it ends."""
    words = _words(launch)
    result = "succeeded"
    for word, value in pairwise(words):
        if word == "sleep" and _NUMBER.fullmatch(value):
            seconds = float(value)
        if word == "exit" and value.isdigit():
            result = "succeeded" if int(value) == 0 else f"failed {int(value)}"
    return seconds, result


def _words(launch: Mapping[str, Any]) -> list[str]:
    """The words of the command of the first group that has one."""
    for group in launch.get("groups", {}).values():
        given = [*group.get("command", ()), *group.get("args", ())]
        if given:
            return [word.strip(";&") for text in given for word in text.split()]
    return []


def made_up(count: int, amounts: Mapping[str, str | int | float], prefix: str) -> list[NodeReport]:
    """So many equal nodes."""
    return [NodeReport(name=f"{prefix}-{number}", amounts=dict(amounts)) for number in range(count)]
