"""`muster up --demo`: a small mixed workload on this machine, shown as it runs, and what happened and why.

It does what anyone could do with the SDK. A job of the lowest class is preempted by an urgent one, saves its work and
goes on where it was; a gang starts whole; an elastic job takes the room that is left.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from muster.sdk.client import Client
    from muster.sdk.shapes import Event as Happened
    from muster.sdk.shapes import Job, Why

LOOK_S = 0.5
QUEUES = {"research": 2.0, "teaching": 1.0}

_BACKGROUND = """
step=$(cat "$STEPS" 2>/dev/null || echo 0); echo "goes on at step $step of 16"
trap 'echo "saved step $step; $(cat "$MUSTER_NOTICE")"; exit 1' TERM
while [ "$step" -lt 16 ]; do sleep 0.5; step=$((step + 1)); echo "$step" > "$STEPS"; done
echo done
"""
_ELASTIC = """
trap 'echo "worker $MUSTER_INDEX leaves"; exit 0' TERM
for second in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1; done; echo "worker $MUSTER_INDEX is done"
"""
_GANG = 'echo "task $MUSTER_RANK of $MUSTER_WORLD_SIZE on $MUSTER_NODE, peers at $MUSTER_PEERS"; sleep 3'


@dataclass(slots=True)
class Story:
    """What is known of one job of the demo."""

    job: Job
    waited_for: str = ""
    lines: list[str] = field(default_factory=list)


def workload(cores: float, scratch: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What is submitted first, and what once the first of it runs; for nodes of so many cores."""
    whole, half, quarter = (f"{int(1000 * cores * part)}m" for part in (1.0, 0.5, 0.25))
    steps = {"STEPS": str(scratch / "steps")}
    first: list[dict[str, Any]] = [
        {
            "name": "background",
            "queue": "teaching",
            "priorityClass": "low",
            "cpu": whole,
            "grace": "5s",
            "expectedRuntime": "8s",
        }
        | {"command": _BACKGROUND, "env": steps},
        {"name": "elastic", "queue": "research", "freezingWindow": "2s", "expectedRuntime": "12s"}
        | {"groups": [{"name": "worker", "min": 1, "max": 4, "cpu": quarter, "command": _ELASTIC}]},
    ]
    then: list[dict[str, Any]] = [
        {"name": "urgent", "queue": "research", "priorityClass": "high", "cpu": whole, "expectedRuntime": "3s"}
        | {"command": "sleep 3"},
        *(
            {"name": f"lesson-{number}", "queue": "teaching", "cpu": quarter, "expectedRuntime": "2s"}
            | {"command": "sleep 2; echo learnt"}
            for number in range(1, 5)
        ),
        {"name": "gang", "queue": "research", "expectedRuntime": "3s"}
        | {"groups": [{"name": "member", "count": 2, "cpu": half, "command": _GANG}]},
    ]
    return first, then


class Demo:
    """The demo, in a thread beside the server that it talks to."""

    def __init__(self, url: str, token_file: Path, console: Console) -> None:
        self._url = url
        self._token_file = token_file
        self._console = console
        self._is_over = Event()
        self._stories: dict[str, Story] = {}
        self._thread = Thread(target=self._run, name="demo", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End with the server."""
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        from muster.model.errors import MusterError
        from muster.sdk.client import Client

        token = self._token_file.read_text(encoding="utf-8").strip()
        try:
            with Client(self._url, token=token, patience_s=5) as client, tempfile.TemporaryDirectory() as scratch:
                self._play(client, Path(scratch))
        except MusterError as err:
            if not self._is_over.is_set():
                self._console.print(f"the demo ended early: {err}", highlight=False)

    def _play(self, client: Client, scratch: Path) -> None:
        for queue, weight in QUEUES.items():
            client.put_queue(queue, weight=weight)
        since = client.status().last_event
        cores = min(float(_cores(node.allocatable["cpu"])) for node in client.nodes())
        first, then = workload(cores, scratch)
        began = monotonic()
        self._submit(client, first)
        with self._view() as view:
            while not self._is_over.wait(LOOK_S):
                self._look(client, since)
                view.show(self._stories.values())
                if then and all(story.job.state == "running" for story in self._stories.values()):
                    self._submit(client, then)
                    then = []
                elif not then and all(story.job.is_over for story in self._stories.values()):
                    break
        if not self._is_over.is_set():
            self._tell(client, since, monotonic() - began)

    def _submit(self, client: Client, jobs: list[dict[str, Any]]) -> None:
        for made in client.submit(jobs):
            self._stories[made.id] = Story(client.job(made.id))

    def _look(self, client: Client, since: int) -> None:
        """See how all jobs are, and why those wait that do."""
        for job_id, story in self._stories.items():
            if story.job.is_over:
                continue
            story.job = client.job(job_id)
            if story.job.state in ("queued", "pending"):
                why = client.why(job_id)
                story.waited_for = _because(why) or story.waited_for
        for story in self._stories.values():
            story.lines = []
        for event in client.events(after=since, follow=False):
            if event.job in self._stories and (line := _told(event)):
                self._stories[event.job].lines.append(line)

    def _view(self) -> _Lines | _Screen:
        return _Screen(self._console) if self._console.is_terminal else _Lines(self._console)

    def _tell(self, client: Client, since: int, took_s: float) -> None:
        self._look(client, since)
        console = self._console
        console.print(f"\nWhat happened in {took_s:.0f} s, and why:", highlight=False)
        for job_id, story in self._stories.items():
            console.print(f"\n[bold]{job_id}[/] {story.job.state}", highlight=False)
            if story.waited_for:
                console.print(f"  waited: {story.waited_for}", highlight=False, markup=False, soft_wrap=True)
            for line in story.lines:
                console.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
        jobs = list(self._stories)
        console.print(f"\nThe server stays up at {self._url} until Ctrl-C. Elsewhere, try:", highlight=False)
        for command in ("jobs", f"job {jobs[0]}", f"logs {jobs[0]}", "queues", "submit --queue research -- echo hello"):
            console.print(f"  {sys.argv[0]} {command}", highlight=False, soft_wrap=True)


class _Lines:
    """For files and pipes: a line whenever the state of a job changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, stories: Iterable[Story]) -> None:
        """Say what is new."""
        for story in stories:
            now = story.job.state + ("" if story.job.attempt < 2 else f" (attempt {story.job.attempt})")
            if self._shown.get(story.job.id) != now:
                self._shown[story.job.id] = now
                why = f": {story.waited_for}" if story.job.state == "queued" and story.waited_for else ""
                self._console.print(f"  {story.job.id:<24} {now}{why}", highlight=False, markup=False, soft_wrap=True)


class _Screen:
    """For people: a table that stays in its place."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> _Screen:
        self._live.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._live.__exit__(*raised)

    def show(self, stories: Iterable[Story]) -> None:
        """Draw it anew."""
        self._live.update(_table(stories), refresh=True)


_STYLES: Mapping[str, str] = {"running": "green", "queued": "yellow", "pending": "yellow", "succeeded": "dim"}


def _table(stories: Iterable[Story]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("JOB", "QUEUE", "STATE", "WHERE OR WHY", box=None, pad_edge=False, expand=True)
    for story in stories:
        job = story.job
        if job.state in ("queued", "pending"):
            about = story.waited_for
        else:
            about = story.lines[-1] if story.lines else ""
        state = job.state + ("" if job.attempt < 2 else f" (attempt {job.attempt})")
        table.add_row(job.id, job.queue, Text(state, style=_STYLES.get(job.state, "")), Text(about))
    return table


def _told(event: Happened) -> str:
    """A line about what happened to a job; "" for what goes without saying."""
    facts = event.facts
    match event.event:
        case "started":
            where = ", ".join(dict.fromkeys(facts["tasks"].values()))
            return f"started on {where}" + (f" (attempt {facts['attempt']})" if facts["attempt"] > 1 else "")
        case "preempted":
            return f"preempted for {facts['by']}"
        case "resized":
            return f"{facts['group']}: from {facts['from']} to {facts['to']} tasks"
        case "failed":
            return f"failed: {facts['cause']}"
        case _:
            return ""


def _cores(text: str) -> float:
    return float(text[:-1]) / 1000 if text.endswith("m") else float(text)


def _because(why: Why) -> str:
    """The reason of an answer, and its sentence."""
    if why.reason is None:
        return ""
    return f"{why.reason}: {why.text.partition(f'{why.reason}: ')[2].partition('. ')[0]}"
