"""All attempts of one machine: what the server is told, and what it asks for.

Every attempt has a folder under `live` until the server knows its end, then under `over`, where its output stays for a
while. A lease makes the folder first, so nothing is begun twice; a lease whose room is still taken by tasks that were
told to end waits for them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from muster.agent.calling import Untold
from muster.agent.protocol import Lease, NodeReport, Piece, Read, Report, Stop
from muster.local import records, sheets
from muster.local.attempts import SHUT_DOWN, Attempt, Means
from muster.local.launching import Launcher
from muster.local.machine import Part
from muster.local.memory import Group
from muster.local.reading import piece
from muster.local.room import held, is_full
from muster.model.errors import MusterError

Key = tuple[str, int]

SWEEP_EVERY_S = 600.0
SOON_S = 0.1
MOST_AT_ONCE = 32  # attempts that are begun without a look at what ended


class FolderInUse(MusterError):
    """Another agent works in the same folder."""


class Local:
    """The machine, as the server sees it by its agent."""

    def __init__(
        self, folder: Path, nodes: Sequence[Part], *, groups: Group | None, keep_s: float, workdir: str = ""
    ) -> None:
        self._live, self._over = folder / "live", folder / "over"
        for each in (folder, self._live, self._over):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = locked(folder)
        self._parts = list(nodes)
        self._amounts = {part.name: part.amounts for part in nodes}
        self._keep_s = keep_s
        self._attempts: dict[Key, Attempt] = {}
        self._of_task: dict[str, Attempt] = {}
        self._waiting: dict[Key, Attempt] = {}  # for room
        self._to_say: set[Key] = set()
        self._ports: set[int] = set()
        self._empty = asyncio.Event()
        self._is_closing = False
        self.untold = Untold()
        self._means = Means(
            launcher=Launcher(self._watched, self._ended),
            workdir=workdir or os.getcwd(),
            gpus={part.name: part.machine.gpus for part in nodes},
            groups=groups,
            untold=self.untold,
        )
        self._recall()

    def _recall(self) -> None:
        """Go on with what an agent before this one left."""
        for path in sorted(self._live.iterdir()):
            sheet = sheets.load(path)
            if sheet is None:  # nothing was begun
                shutil.rmtree(path)
                continue
            attempt = Attempt(path, sheet, self._means)
            attempt.recall()
            self._attempts[sheet.job, sheet.attempt] = attempt
            self._ports |= {task.port for task in sheet.tasks}
            self._know(attempt)
        for key, attempt in list(self._attempts.items()):
            if attempt.report is None:
                self._go_on(key, attempt)

    def _go_on(self, key: Key, attempt: Attempt) -> None:
        for folder in list(attempt.tasks):
            attempt.look(folder)
        if attempt.stopping is not None:
            attempt.stop(attempt.stopping["why"], attempt.stopping["reason"])
        elif attempt.is_begun:
            attempt.begin()
        else:
            self._waiting[key] = attempt
        self._settle(attempt)

    # -- what the caller asks for ----------------------------------------------------------------------------

    def nodes(self) -> list[NodeReport]:
        """All nodes."""
        return [part.report() for part in self._parts]

    def has(self) -> list[Report]:
        """Every attempt that is here, or that ended and was not told yet."""
        return [attempt.now() for attempt in self._attempts.values()]

    def start(self, leases: Sequence[Lease]) -> None:
        """Begin attempts, each at most once, or give those that run the tasks they have now."""
        for lease in leases:
            key = (lease.job, lease.attempt)
            attempt = self._attempts.get(key)
            if attempt is None:
                attempt = self._made(lease)
            elif lease.revision > attempt.sheet.revision and attempt.report is None and attempt.stopping is None:
                attempt.resize(sheets.next_sheet(attempt.sheet, lease, self._port))
                self._waiting[key] = attempt
            if attempt is not None:
                self._say_soon(key)
        self._begin_those_with_room()

    def _made(self, lease: Lease) -> Attempt | None:
        """The folder of a new attempt; None if it was here before and is over."""
        name = records.folder_name(lease.job, lease.attempt)
        before = sheets.load_report(self._over / name)
        if before is not None:
            self.untold.tell(before)
            return None
        path = self._live / name
        path.mkdir(mode=0o700)
        sheet = sheets.first_sheet(lease, time.time(), self._port)
        sheets.save(path, sheet)
        attempt = Attempt(path, sheet, self._means)
        self._attempts[lease.job, lease.attempt] = self._waiting[lease.job, lease.attempt] = attempt
        return attempt

    def stop(self, stops: Sequence[Stop]) -> None:
        """End attempts; one that is not here is told as over."""
        for stop in stops:
            attempt = self._attempts.get((stop.job, stop.attempt))
            if attempt is None:
                self.untold.tell(Report(job=stop.job, attempt=stop.attempt, stage="ended", result="stopped"))
            elif attempt.report is not None:
                self.untold.tell(attempt.report)
            else:
                attempt.stop("asked", stop.reason)
                self._waiting.pop((stop.job, stop.attempt), None)
                self._settle(attempt)

    def settle(self) -> None:
        """Whatever is told is on disk before."""

    def told(self, reports: Sequence[Report]) -> None:
        """The server knows these: those that are over make room, and their output is kept for a while."""
        for report in reports:
            attempt = self._attempts.get((report.job, report.attempt))
            if attempt is None:
                continue
            attempt.told(report)
            if report.stage == "ended" and attempt.report is not None:
                del self._attempts[report.job, report.attempt]
                self._ports -= {task.port for task in attempt.sheet.tasks}
                for folder in attempt.tasks:
                    self._of_task.pop(folder, None)
                os.rename(attempt.folder, self._over / attempt.folder.name)

    def read(self, asked: Read) -> Piece:
        """A piece of a log."""
        name = records.folder_name(asked.job, asked.attempt)
        folder = next((path for path in (self._live / name, self._over / name) if path.exists()), None)
        if folder is None:
            return Piece(number=asked.number, is_over=True, problem="its output is not here any more")
        return piece(folder, asked)

    # -- lives -----------------------------------------------------------------------------------------------

    def _begin_those_with_room(self) -> None:
        """Begin whom nobody is in the way of: a few at a time, so that ends are heard of in between."""
        if not self._waiting or self._is_closing:
            return
        leaving = self._being_left()
        few = islice(list(self._waiting.items()), MOST_AT_ONCE if not leaving else None)
        for key, attempt in few:
            if leaving and self._must_wait(attempt, leaving):
                continue
            del self._waiting[key]
            attempt.begin()
            self._know(attempt)
            self._say_soon(key)
            self._settle(attempt)
        if self._waiting and not leaving:
            asyncio.get_running_loop().call_soon(self._begin_those_with_room)

    def _being_left(self) -> set[str]:
        """The nodes with tasks that were told to end and are still about."""
        tasks = (tasked for attempt in self._attempts.values() for tasked in attempt.tasks.values())
        return {tasked.task.node for tasked in tasks if tasked.is_told and tasked.end is None}

    def _must_wait(self, attempt: Attempt, leaving: set[str]) -> bool:
        """Whether its room is still taken by someone who was told to leave it."""
        wanted = attempt.wanted()
        if leaving.isdisjoint(task.node for _, task in wanted):
            return False
        taken = held((pair for other in self._attempts.values() for pair in other.held()), self._amounts)
        return is_full(self._amounts, taken, held(wanted, self._amounts))

    def _know(self, attempt: Attempt) -> None:
        self._of_task.update(dict.fromkeys(attempt.tasks, attempt))

    def _watched(self, folder: str) -> None:
        attempt = self._of_task.get(folder)
        if attempt is not None:
            attempt.watched(folder)

    def _ended(self, folder: str) -> None:
        """A supervisor is gone."""
        attempt = self._of_task.get(folder)
        if attempt is not None:
            attempt.look(folder)
            self._settle(attempt)
            self._begin_those_with_room()

    def _settle(self, attempt: Attempt) -> None:
        attempt.settle()
        if self._is_closing and not self._is_busy():
            self._empty.set()

    def _say_soon(self, key: Key) -> None:
        """Say how an attempt is, in a moment: by then some are over, and that is all there is to say of them."""
        if key not in self._to_say:
            asyncio.get_running_loop().call_later(SOON_S, self._say_now, key)
            self._to_say.add(key)

    def _say_now(self, key: Key) -> None:
        self._to_say.discard(key)
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.report is None:
            self.untold.tell(attempt.now())

    def _port(self) -> int:
        """A port that is free, and that no other task was given."""
        while True:
            with socket.socket() as trial:
                trial.bind(("127.0.0.1", 0))
                port = int(trial.getsockname()[1])
            if port not in self._ports:
                self._ports.add(port)
                return port

    # -- the end ---------------------------------------------------------------------------------------------

    def _is_busy(self) -> bool:
        return any(next(attempt.held(), None) is not None for attempt in self._attempts.values())

    def stop_all(self) -> int:
        """Have every task end, because the agent does; how many there are."""
        self._is_closing = True
        busy = [attempt for attempt in self._attempts.values() if next(attempt.held(), None) is not None]
        for attempt in busy:
            attempt.stop("shutdown", SHUT_DOWN)
            self._settle(attempt)
        if not self._is_busy():
            self._empty.set()
        return sum(len(list(attempt.held())) for attempt in busy)

    def kill_all(self) -> None:
        """Do not wait for those that were told to end."""
        for attempt in self._attempts.values():
            attempt.kill()

    async def until_empty(self) -> None:
        """Wait until no task is left."""
        await self._empty.wait()

    def close(self) -> None:
        """Leave what runs to its supervisors."""
        self._means.launcher.close()
        os.close(self._lock)

    async def sweep(self) -> None:
        """Remove output that is older than it is kept, now and then."""
        while True:
            await asyncio.to_thread(remove_older, self._over, time.time() - self._keep_s)
            await asyncio.sleep(SWEEP_EVERY_S)


def remove_older(over: Path, moment: float) -> None:
    """Remove the folders of attempts that were over before that moment."""
    for entry in os.scandir(over):
        if entry.stat().st_mtime < moment:
            shutil.rmtree(entry.path, ignore_errors=True)


def locked(folder: Path) -> int:
    """The lock of an agent's folder: two agents in one would both do what the other does."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise FolderInUse(f"another agent works in {folder}") from None
    return lock
