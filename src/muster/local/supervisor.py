"""Runs one task to its end and writes down how it ended, whatever becomes of the agent meanwhile.

The record is made before the task's program runs, the end once all of its processes are gone. In between the
supervisor alone enforces time and memory limits, sends TERM with a notice and KILL after the grace, and tells of a
change of width. The agent asks for these by signals: TERM (there is a `stop.json`), WINCH (passed on). A supervisor
that is killed takes its task with it. One whose task is over may be given another.

Standard library only.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from contextlib import suppress

from muster.local import records
from muster.local.memory import Group, inside
from muster.local.processes import BOOT, adopt_orphans, descendants, die_with_parent, kill_all, resident, started

LONGEST = 1 << 16  # bytes of a message: paths are shorter
WATCH_EVERY_S = 0.2  # how much memory a task holds, where no control group does
NOT_FOUND, NOT_RUNNABLE = 127, 126  # exit codes, as shells have them

EXITED, STOPPED, TIME_LIMIT, OUT_OF_MEMORY, NOT_STARTED, LOST = (
    "exited",
    "stopped",
    "time limit",
    "out of memory",
    "not started",
    "lost",
)
"""How a task can end."""

_HEARD = (signal.SIGCHLD, signal.SIGTERM, signal.SIGWINCH)
HELD_BACK = {signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, *_HEARD}
"""Signals that wait until the supervisor listens; its task is given them as usual."""


class Ending:
    """A task that was told to end: why, by what, and when it is killed."""

    def __init__(self, how: str, reason: str, kill_at: float) -> None:
        self.how = how
        self.reason = reason
        self.kill_at = kill_at


def supervise(folder: str) -> bool:
    """Run the task of a folder, unless somebody else does or did; whether we are good for another one.

    Whoever forked us holds back the signals we hear.
    """
    order = records.read(folder, records.ORDER)
    if order is None:  # the agent forgot the task meanwhile
        return True
    pid = os.getpid()
    record = {"pid": pid, "started": started(pid), "boot": BOOT, "began": time.time()}
    if not records.claim(folder, records.RECORD, record):
        return True
    is_sound = True
    try:
        end = Task(folder, order).run()
    except Exception as err:  # a full disk, a folder that is gone: it must be known that the task did not end by itself
        end = {"how": LOST, "message": f"its supervisor failed: {err!r}"}
        is_sound = False
        _kill_descendants()
    records.write(folder, records.END, {"ended": time.time(), **end})
    return is_sound


class Task:
    """One task while it runs."""

    def __init__(self, folder: str, order: records.Body) -> None:
        self._folder = folder
        self._order = order
        self._limit = int(order.get("memory") or 0)
        self._group = self._made_group()
        self._most = 0
        self._ending: Ending | None = None
        self._pid = 0

    def _made_group(self) -> Group | None:
        place = self._order.get("groups")
        if not self._limit or place is None:
            return None
        group = inside(Group(version=place["version"], path=place["path"]), self._order["mark"])
        group.limit(self._limit)
        return group

    def run(self) -> records.Body:
        """Start the program, and stay until all of its processes are gone."""
        trouble = self._start()
        if trouble is not None:
            self._leave_group()
            return trouble
        status = self._stay()
        end = self._end_of(status)
        self._leave_group()
        return end

    # -- starting --------------------------------------------------------------------------------------------

    def _start(self) -> records.Body | None:
        """Start the program; what is wrong if that cannot be done."""
        reads, writes = os.pipe()
        files = self._opened()
        command = self._order["command"]
        env = {**os.environ, **self._order["env"]}
        program = found_in_path(command[0], env.get("PATH", os.defpath))
        supervisor = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become_program(supervisor, writes, files, program, env)
        for file in (writes, *files):
            os.close(file)
        said = os.read(reads, 4096)  # closed by exec
        os.close(reads)
        if not said:
            return None
        os.waitpid(self._pid, 0)
        number, _, what = said.decode(errors="replace").partition(" ")
        code = NOT_FOUND if int(number) == errno.ENOENT else NOT_RUNNABLE
        return {"how": NOT_STARTED, "code": code, "message": f"{what}: {os.strerror(int(number))}"}

    def _become_program(
        self, supervisor: int, writes: int, files: list[int], program: str, env: dict[str, str]
    ) -> None:
        """What the child does, which is as little as can be: it never returns."""
        what = "its supervisor is gone"
        try:
            die_with_parent()
            if os.getppid() != supervisor:
                os._exit(1)
            os.setsid()
            if self._group is not None:
                what = "its memory limit cannot be set"
                self._group.join()
            for number, file in enumerate(files):
                os.dup2(file, number)
            what = f"workdir {self._order['workdir']}"
            os.chdir(self._order["workdir"])
            signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
            what = f"command {self._order['command'][0]}"
            os.execve(program, self._order["command"], env)
        except OSError as err:
            os.write(writes, f"{err.errno} {what}".encode())
        finally:
            os._exit(1)

    def _opened(self) -> list[int]:
        """What the program reads and writes."""
        how = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        written = [os.open(f"{self._folder}/{name}", how, 0o600) for name in (records.OUT, records.ERR)]
        return [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), *written]

    # -- staying ---------------------------------------------------------------------------------------------

    def _stay(self) -> int:
        """Wait for the program, and see to its limits meanwhile; how it ended, as the kernel says it."""
        until = self._order.get("until")
        limit_at = None if until is None else time.monotonic() + until - time.time()
        if os.path.exists(f"{self._folder}/{records.STOP}"):  # asked for before we could hear of it
            self._stop()
        while not self._is_over():
            heard = signal.sigtimedwait(_HEARD, self._patience_s(limit_at))
            number = 0 if heard is None else heard.si_signo
            if number == signal.SIGTERM:
                self._stop()
            elif number == signal.SIGWINCH:
                self._send(signal.SIGWINCH)
            now = time.monotonic()
            if limit_at is not None and now >= limit_at and self._ending is None:
                self._end(TIME_LIMIT, "time limit", float(self._order["grace"]))
            if self._limit and self._group is None and number != signal.SIGCHLD:
                self._watch_memory()
            if self._ending is not None and now >= self._ending.kill_at:
                self._kill()
        self._kill()
        _, status = os.waitpid(self._pid, 0)
        _kill_descendants()
        return status

    def _is_over(self) -> bool:
        """Whether the program has ended. It is not waited for yet, so that its number stays its own."""
        for_any = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while (ended := os.waitid(os.P_ALL, 0, for_any)) is not None:
            if ended.si_pid == self._pid:
                return True
            os.waitpid(ended.si_pid, 0)  # an orphan that became ours
        return False

    def _patience_s(self, limit_at: float | None) -> float:
        moments = [3600.0]
        now = time.monotonic()
        if self._ending is not None:
            moments.append(self._ending.kill_at - now if self._ending.kill_at > now else WATCH_EVERY_S)
        elif limit_at is not None:
            moments.append(limit_at - now)
        if self._limit and self._group is None:
            moments.append(WATCH_EVERY_S)
        return max(min(moments), 0.0)

    def _stop(self) -> None:
        """The agent wants the task to end; told twice, the shorter grace counts."""
        asked = records.read(self._folder, records.STOP)
        if asked is None:  # it was meant for the task that we had before
            return
        self._end(STOPPED, str(asked.get("reason", "stopped")), float(asked.get("grace", 0.0)))

    def _end(self, how: str, reason: str, grace_s: float) -> None:
        """Send TERM with a notice, and KILL later."""
        kill_at = time.monotonic() + grace_s
        if self._ending is not None:
            self._ending.kill_at = min(self._ending.kill_at, kill_at)
            return
        self._ending = Ending(how, reason, kill_at)
        notice = {"reason": reason, "grace": grace_s, "until": time.time() + grace_s}
        with suppress(OSError):  # a full disk must not keep it from ending
            records.write(self._folder, records.NOTICE, notice)
        self._send(signal.SIGTERM)

    def _watch_memory(self) -> None:
        held = resident(descendants(os.getpid()))
        self._most = max(self._most, held)
        if held > self._limit:
            self._ending = Ending(OUT_OF_MEMORY, "out of memory", 0.0)

    def _send(self, what: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, what)

    def _kill(self) -> None:
        self._send(signal.SIGKILL)

    # -- ending ----------------------------------------------------------------------------------------------

    def _end_of(self, status: int) -> records.Body:
        """What is written down of the end."""
        code = os.waitstatus_to_exitcode(status)
        end: records.Body = {"how": EXITED, "code": 128 - code if code < 0 else code}
        if code < 0:
            end["signal"] = -code
        if self._ending is not None:
            end |= {"how": self._ending.how, "message": self._ending.reason}
        if self._group is not None:
            self._most = self._group.peak()
            if code != 0 and self._group.kills():
                end["how"] = OUT_OF_MEMORY
        if self._limit:
            end |= {"used": self._most, "limit": self._limit}
        return end

    def _leave_group(self) -> None:
        if self._group is not None:
            self._group.remove()


def found_in_path(command: str, path: str) -> str:
    """The program that a command names: the first one in the path, or what the kernel will say is wrong with it."""
    if "/" in command:
        return command
    places = [f"{folder or '.'}/{command}" for folder in path.split(os.pathsep)]
    return next((place for place in places if os.access(place, os.X_OK)), places[-1])


def _kill_descendants() -> None:
    """Kill whoever is left of the task, also those who left its process group."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                kill_all(descendants(os.getpid()))
                os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _next(wire: socket.socket) -> str:
    """Say that we are free, and wait for the folder of another task; nothing if there will be none."""
    try:
        wire.send(b"free", socket.MSG_NOSIGNAL)
        return os.fsdecode(wire.recv(LONGEST))
    except OSError:
        return ""


def main(folder: str, wire: socket.socket | None = None) -> None:
    """The life of a supervisor process: one task, and then those that it hears of by the wire until that is closed."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        adopt_orphans()
        while folder and supervise(folder):
            folder = "" if wire is None else _next(wire)
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)
