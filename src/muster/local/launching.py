"""The agent's side of the launcher: has supervisors forked, and hears of their ends."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

from muster.local.launcher import LONGEST
from muster.local.processes import BOOT, started
from muster.local.records import Body

log = logging.getLogger(__name__)

MOST_AHEAD = 64  # folders that were named and not answered yet: neither side waits for the other for ever

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from muster.local.launcher import main; main()"
_PACKAGES = Path(__file__).resolve().parents[2]

About = Callable[[str], None]
"""Called with the folder of a task whose supervisor is watched from now on, or is gone."""


class Launcher:
    """A launcher process, and a descriptor for every supervisor that is watched."""

    def __init__(self, watched: About, ended: About) -> None:
        self._is_watched = watched
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._wire: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: dict[str, None] = {}
        self._waiting: deque[str] = deque()
        self._watched: dict[str, int] = {}
        self._files = allow_many_files()

    def start(self, folder: str) -> None:
        """Have a supervisor for the task of a folder; what becomes of it is to be read there once `ended` is called."""
        self._waiting.append(folder)
        self._ask()

    def watch(self, folder: str, record: Body) -> bool:
        """Watch a supervisor that somebody else started; False if it is gone."""
        descriptor = opened(record)
        if descriptor is None:
            return False
        self._watch(folder, descriptor)
        return True

    def signal(self, folder: str, number: int) -> None:
        """Send a signal to a task's supervisor, if it is there."""
        descriptor = self._watched.get(folder)
        if descriptor is not None:
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                return  # its end is about to be heard of

    def close(self) -> None:
        """End the launcher; supervisors go on."""
        for folder in list(self._watched):
            self._unwatch(folder)
        self._hang_up()

    # -- the wire --------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        while self._waiting and len(self._asked) < MOST_AHEAD:
            if self._wire is None:
                self._begin()
            assert self._wire is not None
            folder = self._waiting[0]
            try:
                self._wire.send(os.fsencode(folder))
            except BlockingIOError:
                return  # an answer that is on its way makes room
            except OSError:
                self._lose()
                continue
            self._waiting.popleft()
            self._asked[folder] = None

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, str(_PACKAGES), str(self._files)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.setblocking(False)
        self._wire = ours
        self._loop.add_reader(ours, self._heard)

    def _heard(self) -> None:
        assert self._wire is not None
        while self._wire is not None:
            try:
                message, descriptors, _, _ = socket.recv_fds(self._wire, LONGEST, 1)
            except BlockingIOError:
                break
            except OSError:
                message, descriptors = b"", []
            if not message:
                self._lose()
                break
            folder = os.fsdecode(message)
            self._asked.pop(folder, None)
            if descriptors:
                self._watch(folder, descriptors[0])
            else:  # its task is over; the supervisor may have another one by now
                self._unwatch(folder)
                self._loop.call_soon(self._ended, folder)
        self._ask()

    def _lose(self) -> None:
        """The launcher is gone: whom it was asked for is looked at again, since nobody knows how far it came."""
        log.warning("the launcher of supervisors is gone, starting another one")
        self._hang_up()
        unknown, self._asked = list(self._asked), {}
        for folder in unknown:
            self._loop.call_soon(self._ended, folder)

    def _hang_up(self) -> None:
        if self._wire is not None:
            self._loop.remove_reader(self._wire)
            self._wire.close()
            self._wire = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    # -- supervisors -----------------------------------------------------------------------------------------

    def _watch(self, folder: str, descriptor: int) -> None:
        self._unwatch(folder)
        self._watched[folder] = descriptor
        self._loop.add_reader(descriptor, self._gone, folder)
        self._is_watched(folder)

    def _gone(self, folder: str) -> None:
        self._unwatch(folder)
        self._ended(folder)

    def _unwatch(self, folder: str) -> None:
        descriptor = self._watched.pop(folder, None)
        if descriptor is not None:
            self._loop.remove_reader(descriptor)
            os.close(descriptor)


def opened(record: Body) -> int | None:
    """A descriptor of the supervisor that a record names; None if it is gone, and another process has its number."""
    if record.get("boot") != BOOT:
        return None
    try:
        descriptor = os.pidfd_open(int(record["pid"]))
    except ProcessLookupError:
        return None
    if started(int(record["pid"])) == record["started"]:
        return descriptor
    os.close(descriptor)
    return None


def allow_many_files() -> int:
    """Every supervisor that is watched is an open file: as many as the machine lets us. How many it was before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
