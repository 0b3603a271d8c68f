"""What `muster dev-cluster` does: build the programs once, start a cluster, stay until told to end, leave nothing."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from muster.cli.ending import BAD_INPUT, INTERRUPTED
from muster.cli.serve import FAILED, Wrong, duration_ms
from muster.kubernetes.dev.building import build
from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.programs import ASSETS, Programs, programs, release
from muster.kubernetes.errors import KubernetesError
from muster.model.errors import InvalidValue
from muster.model.resources import parse_amount

LOOK_EVERY_S = 0.5
HEARTBEATS_A_SECOND = 50  # of all nodes together: two cores have other things to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options, as they were given."""

    nodes: int
    cpu: str
    memory: str
    gpus: int
    labels: list[str]
    run_for: str | None
    exit_code: int
    start_takes: str
    stop_takes: str
    has_scheduler: bool
    has_controllers: bool
    feature_gates: str
    runtime_config: str
    data: str | None
    parent: int | None


def run_build() -> int:
    """Build what is missing; the exit code."""
    try:
        found = _built()
    except KubernetesError as err:
        print(err, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted; the next build goes on from here", file=sys.stderr)
        return INTERRUPTED
    for path in sorted({found.etcd.parent, found.apiserver.parent, found.kubectl.parent}):
        print(path)
    return 0


def run(asked: Asked) -> int:
    """Run a cluster until told to end; the exit code."""
    try:
        wanted = _wanted(asked)
        folder = _folder(asked.data)
    except (Wrong, InvalidValue) as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    told = Event()
    try:
        found = _built()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: _end(told))
        with Cluster(found, folder, wanted) as cluster:
            _greet(cluster, found, asked)
            _stay(cluster, told, asked.parent)
    except (KubernetesError, OSError) as err:
        print(f"the cluster cannot run: {err}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:  # while it was starting; it has been stopped
        return 0 if told.is_set() else INTERRUPTED
    finally:
        if asked.data is None:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _end(told: Event) -> None:
    """The first time, whatever waits is interrupted and everything is stopped; after that, patience."""
    if not told.is_set():
        told.set()
        raise KeyboardInterrupt


def _stay(cluster: Cluster, told: Event, parent: int | None) -> None:
    """Until told, or the parent is gone, or a program ends by itself."""
    waiting = select.poll()
    if parent is not None:
        try:
            waiting.register(os.pidfd_open(parent), select.POLLIN)
        except ProcessLookupError:
            return
    while not told.is_set():
        if waiting.poll(LOOK_EVERY_S * 1000):
            return
        cluster.must_run()


def _greet(cluster: Cluster, found: Programs, asked: Asked) -> None:
    print(f"Kubernetes {release()} is up at {cluster.url} with {asked.nodes} hollow nodes")
    print(f"  export KUBECONFIG={cluster.kubeconfig}")
    print(f"  {found.kubectl} get nodes")
    print("  Ctrl-C ends it, and nothing is left", flush=True)


# --- options -----------------------------------------------------------------------------------


def _wanted(asked: Asked) -> Wanted:
    parse_amount("cpu", asked.cpu)
    parse_amount("memory", asked.memory)
    labels = dict(_label(text) for text in asked.labels)
    return Wanted(
        hollow=Hollow(
            nodes=asked.nodes,
            cpu=asked.cpu,
            memory=asked.memory,
            gpus=asked.gpus,
            labels=labels,
            run_s=None if asked.run_for is None else duration_ms("--run-for", asked.run_for) / 1000,
            exit_code=asked.exit_code,
            start_s=duration_ms("--start-takes", asked.start_takes) / 1000,
            stop_s=duration_ms("--stop-takes", asked.stop_takes) / 1000,
            heartbeat_s=max(10.0, asked.nodes / HEARTBEATS_A_SECOND),
        ),
        has_controllers=asked.has_controllers,
        has_scheduler=asked.has_scheduler,
        feature_gates=asked.feature_gates,
        runtime_config=asked.runtime_config,
    )


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Wrong(f"--label {text}: not a label such as zone=a")
    return key, value


def _folder(data: str | None) -> Path:
    if data is None:
        return Path(tempfile.mkdtemp(prefix="muster-dev-"))
    folder = Path(data)
    if folder.exists() and any(folder.iterdir()):
        raise Wrong(f"--data {data}: not empty; a cluster begins in a new folder")
    return folder


# --- building ----------------------------------------------------------------------------------


def _built() -> Programs:
    """All programs, with a bar while they are built."""
    try:
        return programs()
    except KubernetesError:
        if os.environ.get(ASSETS):
            raise
    print(f"Kubernetes {release()} is built once for this machine (about 13 minutes of CPU time)", file=sys.stderr)
    if not sys.stderr.isatty():
        return build(_Lines().tell)
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        return build(lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None))


class _Lines:
    """Progress for those who read it later: a line for each tenth."""

    def __init__(self) -> None:
        self._last = ("", -1)

    def tell(self, what: str, done: int, total: int) -> None:
        """Say it, if it is new."""
        now = (what, done * 10 // total if total else 0)
        if now != self._last:
            self._last = now
            print(f"  {what}{f': {done} of {total} packages' if total else ''}", file=sys.stderr, flush=True)
