"""`muster up`: a server, its database and an agent of this machine, by one command.

The server runs in this process, the agent in one of its own that is killed with it; tasks go on under their supervisors
even then, and the next `muster up` finds them again. Told to end, everything ends, tasks included.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO, TYPE_CHECKING

from muster.cli.ending import BAD_INPUT
from muster.cli.serve import FAILED, Wrong, duration_ms, log_to_stderr

if TYPE_CHECKING:
    from muster.cli.demo import Demo
    from muster.server.service import Service

log = logging.getLogger(__name__)

CONTEXT, CLUSTER, QUEUE = "local", "local", "default"
AGAIN_S = 1.0  # before an agent that ended by itself is started again


def data_folder() -> Path:
    """Where this user's data is kept."""
    given = os.environ.get("XDG_DATA_HOME", "")
    return (Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share") / "muster"


def run(*, data: str | None, port: int, nodes: int, keep: str, demo: bool = False) -> int:
    """Run until interrupted; the exit code."""
    from muster.local.agent import locked
    from muster.model.errors import MusterError
    from muster.model.policy import Policy
    from muster.server.configuration import Configuration
    from muster.server.limits import Limits
    from muster.server.serving import serve

    try:
        keep_ms = duration_ms("--keep", keep)
    except Wrong as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    log_to_stderr(logging.WARNING)
    folder = (Path(data) if data else data_folder()).absolute()
    agent = Agent(folder=folder, nodes=nodes, keep=keep, demo=demo)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        locked(folder)
        configuration = Configuration(
            port=port,
            database=f"sqlite:///{folder / 'muster.db'}",
            token_file=str(agent.token_file),
            record=str(folder / "record"),
            policy=Policy(over_share=None),  # one machine has no newcomers to protect
            limits=Limits(keep_ms=keep_ms),
        )
        serve(configuration, lambda url, service: begin(url, service, agent))
    except (MusterError, OSError) as err:
        print(f"muster cannot run here: {err}", file=sys.stderr)
        return FAILED
    finally:
        agent.end()
    return 0


def begin(url: str, service: Service, agent: Agent) -> None:
    """The server answers: make what other commands need, and start the agent."""
    from muster.model import events as ev
    from muster.model.queues import Queue
    from muster.sdk.contexts import Context, contexts_path, read_contexts, write_contexts
    from muster.server.finding import queue_thing
    from muster.server.news import News

    if not service.queue_names():
        queue = Queue(name=QUEUE)
        service.turns.put(News(events=[ev.QueueSet(queue=queue)], things=[queue_thing(queue)]))
    path = contexts_path()
    context = Context(server=url, token_file=str(agent.token_file))
    write_contexts(path, read_contexts(path).with_context(CONTEXT, context).using(CONTEXT))
    agent.start(url)


@dataclass(slots=True)
class _Running:
    process: subprocess.Popen[str]
    out: IO[str]


class Agent:
    """The agent, in a process that is started again if it ends by itself."""

    def __init__(self, *, folder: Path, nodes: int, keep: str, demo: bool) -> None:
        self.token_file = folder / "token"
        self._folder = folder
        self._options = ["--nodes", str(nodes), "--keep", keep, "--on-end", "stop"]
        self._url = ""
        self._running: _Running | None = None
        self._is_ending = Event()
        self._watching = Thread(target=self._watch, name="agent", daemon=True)
        self._has_greeted = False
        self._wants_demo = demo
        self._demo: Demo | None = None

    def start(self, url: str) -> None:
        """Start it, and say that everything is up once the server knows it."""
        self._url = url
        self._running = self._begun()
        self._watching.start()

    def _begun(self) -> _Running:
        command = [sys.executable, "-m", "muster", "agent", "--kind", "local", "--cluster", CLUSTER, *self._options]
        told = ["--data", str(self._folder / "agent"), "--server", self._url, "--token-file", str(self.token_file)]
        process = subprocess.Popen(
            [*command, *told, "--parent", str(os.getpid())],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which tells it
        )
        assert process.stdout is not None
        return _Running(process, process.stdout)

    def _watch(self) -> None:
        while (running := self._running) is not None:
            for line in running.out:
                self._greet() if "is connected" in line else print(line, end="", flush=True)
            running.out.close()
            code = running.process.wait()
            if self._is_ending.is_set():
                return
            log.warning("the agent ended with %s and is started again", code)
            if self._is_ending.wait(AGAIN_S):
                return
            self._running = self._begun()

    def _greet(self) -> None:
        if not self._has_greeted:
            self._has_greeted = True
            print(f"muster is up at {self._url}, with its data in {self._folder}")
            print(f"  muster submit -- echo hello     (context {CONTEXT} is in use)")
            print("  Ctrl-C ends it; what runs then starts again with the next `muster up`", flush=True)
            if self._wants_demo:
                self._play()

    def _play(self) -> None:
        from rich.console import Console

        from muster.cli.demo import Demo

        self._demo = Demo(self._url, self.token_file, Console())
        self._demo.start()

    def end(self) -> None:
        """Have it end all tasks and itself. Another Ctrl-C is passed on: then it does not wait for them."""
        self._is_ending.set()
        if self._demo is not None:
            self._demo.stop()
        running = self._running
        if running is None:
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: running.process.terminate())
        running.process.terminate()
        self._watching.join()
