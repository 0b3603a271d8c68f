"""`muster up`: everything by one command, found again by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import MUSTER, PATIENCE_S, Process, Site

from muster.local.processes import started


class Up(Site):
    """What `muster up` started, asked by the command line with the context that it saved."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.environment = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
        self.token_file = folder / "data" / "muster" / "token"
        self.server = Process(["up", "--port", "0"], "muster is up at", folder / "up.log", self.environment)

    def start(self) -> Site:
        self.server.start()
        self.url = self.server.greeting.split()[4].rstrip(",")
        return self

    def muster(self, *arguments: str, code: int = 0) -> str:
        """Run a command; what it prints."""
        unsaid = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        ran = subprocess.run(
            [*MUSTER, *arguments],
            env={**unsaid, **self.environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == code, ran.stdout + ran.stderr
        return ran.stdout.strip()

    def supervisors(self) -> list[int]:
        self.folder, folder = self.folder / "data" / "muster", self.folder
        found = super().supervisors()
        self.folder = folder
        return found


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with Up(tmp_path) as running:
        assert isinstance(running, Up)
        yield running


def test_ctrl_c_leaves_nothing_behind_and_the_next_up_finds_everything(up: Up, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    done = up.muster("submit", "--queue", "default", "--wait", "--", "echo", "hello").splitlines()[0]
    runs = up.muster("submit", "--queue", "default", "--", "sh", "-c", f"echo $$ >> {pids}; exec sleep 1000")
    up.muster("queue", "set", "research", "--weight", "3")
    while not pids.exists() or not pids.read_text():
        up.muster("job", runs)
    assert up.server.process is not None
    group = up.server.process.pid
    (supervisor,) = up.supervisors()

    assert up.server.end(signal.SIGINT) == 0

    task = int(pids.read_text())
    assert [started(pid) for pid in (task, supervisor)] == [None, None]
    left = subprocess.run(["pgrep", "-g", str(group)], capture_output=True, text=True).stdout
    assert left == ""
    assert _with(str(tmp_path)) == []

    up.start()

    assert "succeeded" in up.muster("job", done)
    assert "research" in up.muster("queues")
    while len(pids.read_text().splitlines()) < 2:  # what ran then starts again
        up.muster("job", runs)
    up.muster("cancel", runs)
    assert "cancelled" in up.muster("job", runs)


def test_killed_it_leaves_tasks_to_the_next_one(up: Up, tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    os.mkfifo(gate)
    script = f"echo >> {begun}; read line < {gate}"
    name = up.muster("submit", "--queue", "default", "--", "sh", "-c", script)
    while not begun.exists():
        up.muster("job", name)

    up.server.end(signal.SIGKILL)
    gate.write_text("go\n")
    up.start()

    assert "succeeded" in up.muster("wait", name)
    assert begun.read_text() == "\n"  # it was not started again


def test_two_do_not_share_their_data(up: Up) -> None:
    up.muster("up", "--port", "0", code=1)


def _with(text: str) -> list[str]:
    """The processes whose command says this."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found
