"""Real servers and agents for tests: processes that are started, spoken to, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

from muster.local.memory import find_place, mounted, own_groups
from muster.local.processes import started
from muster.local.running import place_name

MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]
PATIENCE_S = 240.0  # with a machine that has other things to do
BACK_OFF_S = 0.01  # who asks again and again leaves the machine to those who work


class Process:
    """A `muster` process that says a line once it is ready."""

    def __init__(self, arguments: Sequence[str], says: str, log: Path, environment: Mapping[str, str] = {}) -> None:
        self.arguments = [*MUSTER, *arguments]
        self._says = says
        self._log = log
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
        self.process: subprocess.Popen[str] | None = None
        self.greeting = ""

    def start(self) -> None:
        """Start, and wait until it is ready."""
        with self._log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                self.arguments, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline().strip()
        assert self._says in self.greeting, f"{self.greeting!r}, and on stderr: {self.log()[-2000:]}"

    def log(self) -> str:
        """All that it wrote to stderr."""
        return self._log.read_text(encoding="utf-8")

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, and wait until it has; its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(timeout=PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.poll() is None


class Site:
    """A server with its agents in one folder; what it did is still there after a restart."""

    def __init__(self, folder: Path, db: str = "", *options: str) -> None:
        self.folder = folder
        self.token_file = folder / "token"
        self.db = db or f"sqlite:///{folder / 'muster.db'}"
        if "--most-requests" not in options:
            options = (*options, "--most-requests", "0")  # tests ask again and again until something holds
        self.server = Process(
            ["server", "--db", self.db, "--port", "0", "--token-file", str(self.token_file), *options],
            "listening on",
            folder / "server.log",
        )
        self.agents: dict[str, Process] = {}
        self.url = ""
        self._client: httpx2.Client | None = None

    def start(self) -> Site:
        """Start the server; the second time on the port of the first, so that agents find it again."""
        self.server.start()
        self.url = self.server.greeting.rpartition(" ")[2]
        port = self.url.rpartition(":")[2]
        place = self.server.arguments.index("--port") + 1
        self.server.arguments[place] = port
        if self._client is not None:
            self._client.close()
        headers = {"Authorization": f"Bearer {self.token}"}
        self._client = httpx2.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=PATIENCE_S)
        return self

    @property
    def token(self) -> str:
        """The first admin's token."""
        return self.token_file.read_text(encoding="utf-8").strip()

    def agent(
        self, cluster: str = "lab", nodes: str = "4xcpu=8,memory=32Gi", seconds: float = 0.05, *, url: str = ""
    ) -> Process:
        """Start a simulated agent with a ledger of its own; `url`: where it finds the server."""
        process = Process(
            [
                *("agent", "--cluster", cluster, "--nodes", nodes, "--seconds", str(seconds)),
                *("--server", url or self.url, "--token-file", str(self.token_file)),
                *("--ledger", str(self.ledger(cluster))),
            ],
            "is connected",
            self.folder / f"agent-{cluster}.log",
        )
        process.start()
        self.agents[cluster] = process
        return process

    def local_agent(self, *options: str, cluster: str = "desk") -> Process:
        """Start an agent that runs tasks on this machine, in a folder of this site."""
        process = Process(
            [
                *("agent", "--kind", "local", "--cluster", cluster, "--server", self.url, "--data"),
                *(str(self.folder / f"agent-{cluster}"), "--token-file", str(self.token_file), *options),
            ],
            "is connected",
            self.folder / f"agent-{cluster}.log",
        )
        process.start()
        self.agents[cluster] = process
        return process

    def supervisors(self) -> list[int]:
        """The supervisors of tasks of local agents that are about."""
        found = []
        for path in self.folder.glob("*/live/*/*/record.json"):
            with suppress(FileNotFoundError):  # it is over meanwhile
                record = json.loads(path.read_text())
                if record and started(record["pid"]) == record["started"]:
                    found.append(int(record["pid"]))
        return found

    def ledger(self, cluster: str = "lab") -> Path:
        """What an agent began and ended."""
        return self.folder / f"ledger-{cluster}"

    def has_noted(self, cluster: str, *line: object) -> bool:
        """Whether the agent's ledger has this line."""
        lines = self.ledger(cluster).read_text("utf-8").splitlines(keepends=True)
        return list(line) in [json.loads(one) for one in lines if one.endswith("\n")]  # the last may be half written

    def ask(self, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any) -> Any:
        """Ask the server; the answer, which must have this status."""
        assert self._client is not None
        answer = self._client.request(method, path, json=body, **more)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def submit(self, *jobs: dict[str, Any], key: str = "") -> list[str]:
        """Submit jobs; their ids."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.ask("POST", "/jobs", {"jobs": list(jobs)}, status=201, headers=headers)
        return [job["id"] for job in answer["jobs"]]

    def queue(self, name: str, **settings: Any) -> None:
        """Make a queue."""
        self.ask("PUT", f"/queues/{name}", settings)

    def job(self, job_id: str) -> dict[str, Any]:
        """A job as it stands."""
        found: dict[str, Any] = self.ask("GET", f"/jobs/{job_id}")
        return found

    def wait(self, job_ids: Sequence[str], *states: str) -> list[dict[str, Any]]:
        """Wait until every one of these jobs is in one of these states (over, if none are given), event by event."""
        wanted = set(states or ("succeeded", "failed", "cancelled"))
        until = time.monotonic() + PATIENCE_S
        left, found = dict.fromkeys(job_ids), {}
        while left and time.monotonic() < until:
            after = self.ask("GET", "/status")["lastEvent"]
            for job_id in list(left):
                found[job_id] = self.job(job_id)
                if found[job_id]["state"] in wanted:
                    del left[job_id]
            if left:
                self._next_event(after, until)
        assert not left, f"still not {wanted}: {[found[job_id] for job_id in left]}"
        return [found[job_id] for job_id in job_ids]

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Ask again and again until something holds."""
        until = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < until, "it never came true"
            time.sleep(BACK_OFF_S)

    def _next_event(self, after: int, until: float) -> None:
        """Wait for the next thing that happens, no longer than until then: the caller says what it misses."""
        assert self._client is not None
        left_s = max(until - time.monotonic(), 0.1)
        with (
            suppress(httpx2.ReadTimeout),
            self._client.stream("GET", "/events", params={"after": str(after)}, timeout=left_s) as sent,
        ):
            for line in sent.iter_lines():
                if line:
                    return

    def __enter__(self) -> Site:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close()
        for process in (*self.agents.values(), self.server):
            if process.is_alive:
                process.end(signal.SIGKILL)
        for pid in self.supervisors():  # a test that failed may have left some
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for folder in {path.parent for path in self.folder.glob("**/live")}:
            if (place := find_place(place_name(folder), mounted(), own_groups())) is not None:
                place.remove()
