"""One attempt: its folder, its tasks, and what there is to tell of it.

What happened to tasks is read from their folders; whatever is decided here follows from that, so that an agent that
comes back after a crash decides the same.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from muster.agent.calling import Untold
from muster.agent.protocol import Report, TaskReport
from muster.local import records, sheets
from muster.local.environment import mark, variables, world
from muster.local.launching import Launcher
from muster.local.memory import Group, inside
from muster.local.outcomes import Seen, Verdict, failed, verdict
from muster.local.processes import kill_all, marked
from muster.local.sheets import Sheet, TaskOf
from muster.local.supervisor import LOST, NOT_FOUND, NOT_STARTED, STOPPED

NOBODY: records.Body = {}  # the record of a task that is not to begin
MOST_LOOKS = 200  # for processes of a task whose supervisor is gone: one that the kernel holds cannot be waited for
MOST_TRIES = 3  # to have a supervisor: one that is killed before it wrote anything is started again

NO_COMMAND = "has no command: a local agent runs commands, no pods"
SHUT_DOWN = "the agent was shut down"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What attempts run by."""

    launcher: Launcher
    workdir: str
    gpus: Mapping[str, tuple[str, ...]]  # of each node
    groups: Group | None  # where control groups can be made
    untold: Untold


@dataclass(slots=True)
class Tasked:
    """One task of an attempt, as far as it has come."""

    task: TaskOf
    folder: str
    end: records.Body | None = None
    is_told: bool = False  # to end, because the attempt is over or it is no part of it any more
    tries: int = 0


@dataclass(slots=True)
class Attempt:
    """An attempt that is here."""

    folder: Path
    sheet: Sheet
    means: Means
    tasks: dict[str, Tasked] = field(default_factory=dict)  # by folder: those it has, and those that are leaving
    stopping: records.Body | None = None
    report: Report | None = None  # once it is over
    told_failed: set[str] = field(default_factory=set)
    is_begun: bool = False

    # -- beginning -------------------------------------------------------------------------------------------

    def recall(self) -> None:
        """Know again what its folder says."""
        self.report = sheets.load_report(self.folder)
        self.stopping = records.read(str(self.folder), sheets.STOPPING)
        for path in self.folder.iterdir():
            order = records.read(str(path), records.ORDER)
            if order is not None:
                task = msgspec.convert(order["task"], TaskOf)
                is_told = (path / records.STOP).exists()
                self.tasks[str(path)] = Tasked(task, str(path), is_told=is_told)
        self.is_begun = bool(self.tasks)

    def begin(self) -> None:
        """Start those of its tasks that nobody has started yet."""
        self.is_begun = True
        if self.sheet.is_gang:
            records.write(str(self.folder), sheets.WORLD, world(self.sheet))
        for task in self.sheet.tasks:
            path = self.folder / task.folder
            if str(path) not in self.tasks:
                self._order(task, path)
                self.look(str(path))

    def _order(self, task: TaskOf, path: Path) -> None:
        """Write down what is to be run."""
        path.mkdir(mode=0o700, exist_ok=True)
        said = self.sheet.launch.get("groups", {}).get(task.group, {})
        terms = self.sheet.terms(task.group)
        gpus = self.means.gpus.get(task.node, ())
        files = {"MUSTER_NOTICE": f"{path}/{records.NOTICE}"}
        if self.sheet.is_gang:
            files["MUSTER_WORLD"] = f"{self.folder}/{sheets.WORLD}"
        order = {
            "task": msgspec.to_builtins(task),
            "mark": mark(self.sheet, task),
            "command": [*said.get("command", ()), *said.get("args", ())],
            "workdir": said.get("workdir") or self.means.workdir,
            "env": variables(
                self.sheet,
                task,
                files=files,
                devices=[gpus[number] for number in task.devices] if gpus else None,
            ),
            "until": self.sheet.until,
            "grace": self.sheet.grace_s,
            "memory": terms.memory,
            "groups": None if self.means.groups is None else vars_of(self.means.groups),
        }
        if not order["command"]:
            end = {"how": NOT_STARTED, "code": NOT_FOUND, "message": f"group {task.group} {NO_COMMAND}"}
            records.write(str(path), records.END, {"ended": time.time(), **end})
        records.write(str(path), records.ORDER, order)
        self.tasks[str(path)] = Tasked(task, str(path))

    # -- what becomes of tasks -------------------------------------------------------------------------------

    def look(self, folder: str) -> None:
        """See what has become of a task, and that somebody sees to it if it is not over."""
        tasked = self.tasks.get(folder)
        if tasked is not None and tasked.end is None:
            tasked.end = records.read(folder, records.END) or self._go_on(tasked)

    def _go_on(self, tasked: Tasked) -> records.Body | None:
        """Have a task go on that has no end; its end, if it turns out to have come to one."""
        record = records.read(tasked.folder, records.RECORD)
        if record is None and not tasked.is_told:
            return self._start(tasked)
        if record is None and not records.claim(tasked.folder, records.RECORD, NOBODY):
            record = records.read(tasked.folder, records.RECORD)
        if not record:  # it is ours, so nobody will ever start it
            return _ended(tasked, STOPPED, "stopped before it began")
        if self.means.launcher.watch(tasked.folder, record):
            return None
        return records.read(tasked.folder, records.END) or self._clean_up(tasked)

    def _start(self, tasked: Tasked) -> records.Body | None:
        tasked.tries += 1
        if tasked.tries > MOST_TRIES:
            return _ended(tasked, LOST, "no supervisor can be started")
        self.means.launcher.start(tasked.folder)
        return None

    def _clean_up(self, tasked: Tasked) -> records.Body:
        """The supervisor is gone and did not say how its task ended: nothing of it may go on unseen."""
        name = mark(self.sheet, tasked.task)
        group = None if self.means.groups is None else inside(self.means.groups, name)
        for _ in range(MOST_LOOKS):  # the killed are still leaving, and may have been about to fork
            if not kill_all({*marked(name), *(() if group is None else group.members())}):
                break
            time.sleep(0.01)
        if group is not None:
            group.remove()
        return _ended(tasked, LOST, "its supervisor was killed")

    def watched(self, folder: str) -> None:
        """A supervisor can be reached from now on: it hears what it may have missed."""
        tasked = self.tasks.get(folder)
        if tasked is not None and tasked.is_told:
            self.means.launcher.signal(folder, signal.SIGTERM)

    # -- ending ----------------------------------------------------------------------------------------------

    def stop(self, why: str, reason: str) -> None:
        """End all of it. `why`: asked (by the server) or shutdown."""
        if self.stopping is None or (self.stopping["why"] != "asked" and why == "asked"):
            self.stopping = {"why": why, "reason": reason}
            records.write(str(self.folder), sheets.STOPPING, self.stopping)
        self._stop_all(reason)

    def _stop_all(self, reason: str, grace_s: float | None = None) -> None:
        for tasked in list(self.tasks.values()):
            self._stop_task(tasked, reason, grace_s)

    def _stop_task(self, tasked: Tasked, reason: str, grace_s: float | None = None) -> None:
        if tasked.end is not None or (tasked.is_told and grace_s is None):
            return
        tasked.is_told = True
        grace = self.sheet.grace_s if grace_s is None else grace_s
        records.write(tasked.folder, records.STOP, {"reason": reason, "grace": grace})
        self.means.launcher.signal(tasked.folder, signal.SIGTERM)
        self.look(tasked.folder)  # one that did not begin yet never will

    def kill(self) -> None:
        """Do not wait for anyone any longer."""
        self._stop_all("killed", 0.0)

    def resize(self, sheet: Sheet) -> None:
        """It has other tasks now: who left is told to end, who stays is told of it, who is new begins later."""
        self.sheet = sheet
        sheets.save(self.folder, sheet)
        records.write(str(self.folder), sheets.WORLD, world(sheet))
        stays = {str(self.folder / task.folder) for task in sheet.tasks}
        for folder, tasked in list(self.tasks.items()):
            if folder not in stays:
                self._stop_task(tasked, "fewer tasks")
            elif tasked.end is None:
                self.means.launcher.signal(folder, signal.SIGWINCH)

    # -- telling ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Decide what it has come to, and tell it if there is something new."""
        if self.report is not None:
            return
        found = self._verdict()
        if found is not None and self.stopping is None:
            self._stop_all("the job is done" if found.result == "succeeded" else found.message)
        if self._is_gone() and (found is not None or self.stopping is not None):
            self._close(found)
        elif found is None and {seen.task.folder for seen in failed(list(self._seen()))} - self.told_failed:
            self.means.untold.tell(self.now())

    def _verdict(self) -> Verdict | None:
        return verdict(self.sheet, list(self._seen())) if self.is_begun else None

    def _seen(self) -> Iterator[Seen]:
        """The tasks that it has now."""
        for task in self.sheet.tasks:
            tasked = self.tasks.get(str(self.folder / task.folder))
            if tasked is None:
                yield Seen(task)
            else:
                yield Seen(task, tasked.end, tasked.is_told)

    def _is_gone(self) -> bool:
        return all(tasked.end is not None for tasked in self.tasks.values())

    def _close(self, found: Verdict | None) -> None:
        """It is over: what will be told of it is written down first."""
        if self.stopping is not None and self.stopping["why"] == "asked":
            found = Verdict("stopped", str(self.stopping["reason"]))
        elif found is None:
            found = Verdict("lost", SHUT_DOWN)
        self.report = Report(
            job=self.sheet.job,
            attempt=self.sheet.attempt,
            stage="ended",
            revision=self.sheet.revision,
            result=found.result,
            message=found.message,
            exit_code=found.exit_code,
        )
        records.write(str(self.folder), sheets.REPORT, msgspec.to_builtins(self.report))
        self.means.untold.tell(self.report)

    def now(self) -> Report:
        """What there is to tell of it. Of failed tasks only while it goes on without them: else its end says it all."""
        if self.report is not None:
            return self.report
        bad = failed(list(self._seen())) if self._verdict() is None else []
        return Report(
            job=self.sheet.job,
            attempt=self.sheet.attempt,
            stage="running" if self.is_begun else "accepted",
            revision=self.sheet.revision,
            failed=[TaskReport(group=seen.task.group, index=seen.task.index) for seen in bad],
        )

    def told(self, report: Report) -> None:
        """The server knows of these tasks that failed."""
        names = {(task.group, task.index) for task in report.failed}
        self.told_failed |= {task.folder for task in self.sheet.tasks if (task.group, task.index) in names}

    def held(self) -> Iterator[tuple[Sheet, TaskOf]]:
        """Its tasks that take room now."""
        return ((self.sheet, tasked.task) for tasked in self.tasks.values() if tasked.end is None)

    def wanted(self) -> list[tuple[Sheet, TaskOf]]:
        """Its tasks that were not begun yet."""
        return [(self.sheet, task) for task in self.sheet.tasks if str(self.folder / task.folder) not in self.tasks]


def _ended(tasked: Tasked, how: str, message: str) -> records.Body:
    """Write down an end that no supervisor will."""
    end = {"how": how, "message": message, "ended": time.time()}
    records.write(tasked.folder, records.END, end)
    return end


def vars_of(group: Group) -> dict[str, object]:
    """A place for control groups, as an order has it."""
    return {"version": group.version, "path": group.path}
