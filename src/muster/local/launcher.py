"""A small process that forks supervisors: it has imported little, so a fork costs a fraction of a millisecond.

It is told a folder and answers with a descriptor of the supervisor's process, by which the agent learns of its end,
whoever its parent is by then. It ends with its agent; supervisors stay.

Standard library only.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys

from muster.local import supervisor

LONGEST = 1 << 16  # bytes of a message: paths are shorter


def prepare() -> None:
    """Make this process one that supervisors can be forked from."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel forgets those that ended
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python; the programs of tasks expect them
        signal.signal(ignored, signal.SIG_DFL)
    gc.disable()  # looking for garbage would make every forked process copy what it looks at
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, supervisor.HELD_BACK)  # none reaches a supervisor before it listens


def serve(wire: socket.socket) -> None:
    """Fork a supervisor for every folder that is named, until nobody is there to name one."""
    prepare()
    while folder := wire.recv(LONGEST):
        pid = os.fork()
        if pid == 0:
            wire.close()
            _detach()
            supervisor.main(os.fsdecode(folder))
        _answer(wire, pid, folder)


def _detach() -> None:
    """Away from the terminal and the files of the agent."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def _answer(wire: socket.socket, pid: int, folder: bytes) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:  # it has ended already
        wire.send(folder)
        return
    try:
        socket.send_fds(wire, [folder], [descriptor])
    finally:
        os.close(descriptor)


def main() -> None:
    """The launcher's life: its wire is its standard input.

    Its agent may have very many files open; tasks may have as many as the agent could before.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), hard))
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:  # a token is none of a task's business
        del os.environ[name]
    with socket.socket(fileno=os.dup(0)) as wire:
        try:
            serve(wire)
        except (BrokenPipeError, ConnectionResetError):
            sys.exit(0)  # the agent is gone
