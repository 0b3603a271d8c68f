"""A small process that forks supervisors: it has imported little, so a fork costs a fraction of a millisecond.

It is told a folder and answers with a descriptor of the supervisor's process, by which the agent learns of its end,
whoever its parent is by then. A supervisor whose task is over says so and is given the next folder: of what a task
costs, a new process and the pages it makes its own are half. The agent is told the folder of a task that is over
without a descriptor. The launcher ends with its agent; supervisors stay until their task is over.

Standard library only.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import socket
import sys
import time

from muster.local import supervisor

LONGEST = supervisor.LONGEST
MOST_IDLE, IDLE_S = 32, 2.0  # supervisors that are kept for the next task, and for how long


def prepare() -> None:
    """Make this process one that supervisors can be forked from."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets those that ended
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; the programs of tasks expect them
        signal.signal(ignored, signal.SIG_DFL)
    gc.disable()  # looking for garbage would make every forked process copy what it looks at
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, supervisor.HELD_BACK)  # none reaches a supervisor before it listens


class Hand:
    """A supervisor, and the task that it has, if it has one."""

    def __init__(self, pid: int, wire: socket.socket, folder: bytes) -> None:
        self.pid = pid
        self.wire = wire
        self.folder = folder
        self.idle_since = 0.0


class Desk:
    """Who runs, and who is free."""

    def __init__(self, wire: socket.socket, files: int) -> None:
        self._wire = wire
        self._files = files
        self._hands: dict[int, Hand] = {}
        self._idle: list[Hand] = []  # who was busy last comes last, and first again
        self._poll = select.poll()
        self._poll.register(wire, select.POLLIN)

    def serve(self) -> None:
        """See to every folder that is named, until nobody is there to name one."""
        while True:
            ready = {file for file, _ in self._poll.poll(1000 * IDLE_S if self._idle else None)}
            for file in ready - {self._wire.fileno()}:  # before anybody of them is asked for more, or let go
                self._hear(self._hands[file])
            if self._wire.fileno() in ready:
                folder = self._wire.recv(LONGEST)
                if not folder:
                    return
                self._start(folder)
            self._dismiss()

    def _start(self, folder: bytes) -> None:
        self._answer(self._taken(folder) or self._forked(folder))

    def _taken(self, folder: bytes) -> Hand | None:
        """Somebody who is free and takes it."""
        while self._idle:
            hand = self._idle[-1]
            try:
                hand.wire.send(folder, socket.MSG_NOSIGNAL)
            except OSError:  # it was killed
                self._let_go(hand)
                continue
            hand.folder = folder
            return self._idle.pop()
        return None

    def _forked(self, folder: bytes) -> Hand:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = os.fork()
            if pid == 0:
                self._become_supervisor(ours, theirs, folder)
        hand = self._hands[ours.fileno()] = Hand(pid, ours, folder)
        self._poll.register(ours, select.POLLIN)
        return hand

    def _become_supervisor(self, ours: socket.socket, wire: socket.socket, folder: bytes) -> None:
        """What the child does: it never returns. It has no file of anybody else's: who waits for their ends would wait
        for ours as well."""
        for other in (self._wire, ours, *(hand.wire for hand in self._hands.values())):
            os.close(other.fileno())
        _detach()
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        supervisor.main(os.fsdecode(folder), wire)

    def _answer(self, hand: Hand) -> None:
        try:
            descriptor = os.pidfd_open(hand.pid)
        except ProcessLookupError:  # it has ended already
            self._wire.send(hand.folder)
            return
        try:
            socket.send_fds(self._wire, [hand.folder], [descriptor])
        finally:
            os.close(descriptor)

    def _hear(self, hand: Hand) -> None:
        """A supervisor is free; or gone, which the agent sees for itself."""
        try:
            said = hand.wire.recv(LONGEST)
        except OSError:
            said = b""
        if not said:
            self._let_go(hand)
            return
        self._wire.send(hand.folder)
        hand.folder, hand.idle_since = b"", time.monotonic()
        self._idle.append(hand)

    def _dismiss(self) -> None:
        """Those who were free for long, and those who are too many, may go."""
        while self._idle and (len(self._idle) > MOST_IDLE or time.monotonic() - self._idle[0].idle_since >= IDLE_S):
            self._let_go(self._idle[0])

    def _let_go(self, hand: Hand) -> None:
        self._poll.unregister(hand.wire)
        del self._hands[hand.wire.fileno()]
        if hand in self._idle:
            self._idle.remove(hand)
        hand.wire.close()


def _detach() -> None:
    """Away from the terminal and the files of the agent."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def main() -> None:
    """The launcher's life: its wire is its standard input.

    Its agent and itself may have very many files open; tasks may have as many as the agent could before.
    """
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:  # a token is none of a task's business
        del os.environ[name]
    with socket.socket(fileno=os.dup(0)) as wire:
        prepare()
        try:
            Desk(wire, int(sys.argv[2])).serve()
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # the agent is gone
