"""The programs of a cluster while they run: each with a log of its own, none outliving us."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from muster.kubernetes.errors import KubernetesError

_PR_SET_PDEATHSIG = 1
_TAIL = 15  # lines of a log that an error shows
FIRST_PORT, LAST_PORT = 20_000, 32_000  # below those that the kernel hands out: a port stays ours over a restart

# To the kernel the parent of a process is the thread that started it: this one lives as long as we do.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="starter")


class ProgramEnded(KubernetesError):
    """A program of the cluster ended by itself."""


class Program:
    """One program. It can be paused, killed and started again."""

    def __init__(self, name: str, command: Sequence[str | Path], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = [str(part) for part in command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def start(self) -> None:
        """Start it; what it says goes into its log."""
        self._process = _STARTER.submit(self._begun).result()

    def _begun(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we end them in order
                preexec_fn=end_with_parent,
            )

    def must_run(self) -> None:
        """Raise if it has ended, with the last lines that it wrote."""
        if self._process is not None and self._process.poll() is not None:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
            raise ProgramEnded(f"{self.name} ended with {self._process.returncode}:\n" + "\n".join(lines))

    def kill(self) -> None:
        """Kill it, paused or not, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Have it do nothing until it is resumed; by the time this returns, all of its threads stand still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)


def free_ports() -> Iterator[int]:
    """Ports of loopback that nobody listens at now."""
    span = LAST_PORT - FIRST_PORT
    start = os.getpid() * 37 % span  # those who look at the same time begin elsewhere
    for step in range(span):
        port = FIRST_PORT + (start + step) % span
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port
    raise KubernetesError(f"no port between {FIRST_PORT} and {LAST_PORT} is free")


def end_with_parent() -> None:
    """Be killed when whoever started us is gone; for the moment before a program begins."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
