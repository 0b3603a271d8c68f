"""A full disk under a whole server: it says so, loses nothing that it acknowledged, and goes on when there is room."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from ledger import Ledger
from serving import PATIENCE_S, Site

MIB = 2**20


class Disk:
    """A place for a database that can be full. Where we may not make a file system, its files may not grow."""

    def __init__(self, folder: Path, *, is_mounted: bool) -> None:
        self.folder = folder
        self._is_mounted = is_mounted
        self._ballast = folder / "ballast"
        if is_mounted:
            self._ballast.write_bytes(b"x" * 3 * MIB)

    def limit(self, pid: int) -> None:
        """What a process writes must fit from now on."""
        if not self._is_mounted:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (2 * MIB, resource.RLIM_INFINITY))

    def make_room(self, pid: int) -> None:
        """There is room again."""
        if self._is_mounted:
            self._ballast.unlink()
        else:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(folder)]
    is_mounted = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    yield Disk(folder, is_mounted=is_mounted)
    if is_mounted:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_said_and_nothing_that_was_acknowledged_is_lost(disk: Disk, tmp_path: Path) -> None:
    with Site(tmp_path, f"sqlite:///{disk.folder / 'muster.db'}") as site:
        assert site.server.process is not None
        pid = site.server.process.pid
        disk.limit(pid)
        site.queue("a")
        site.agent(seconds=0.02)
        acknowledged, refused = _submit_until_full(site)

        assert refused.status_code == 503
        assert "nothing was changed" in refused.json()["error"]["message"]
        assert int(refused.headers["Retry-After"]) >= 1
        with ThreadPoolExecutor(1) as somebody:
            has_room = threading.Event()
            putting = somebody.submit(_put_until_refused, site, has_room)  # until a turn cannot write
            _until(lambda: httpx2.get(f"{site.url}/healthz").status_code == 503)
            assert site.ask("GET", "/status")["storeDown"] is True
            at_once = _put_queue(site, "c")
            assert (at_once.status_code, "nothing was changed" in at_once.text) == (503, True)
            has_room.set()
            disk.make_room(pid)
            told = putting.result()

        last = len(acknowledged)
        acknowledged += _submit(site, last)
        assert {job["state"] for job in site.wait(acknowledged)} == {"succeeded"}
        assert site.submit(*_jobs(), key=f"k{last}") == acknowledged[-len(_jobs()) :]
        _until(lambda: httpx2.get(f"{site.url}/healthz").status_code == 200)
        made = [name for name, answer in told.items() if "nothing was changed" not in answer.text]
        assert {queue["name"] for queue in site.ask("GET", "/queues")} == {"a", *made}  # what was told is what is true
        site.server.end()

    Ledger.read(site.ledger()).check_each_once(acknowledged)


def _jobs() -> list[dict[str, object]]:
    return [
        {"name": f"j{place}", "queue": "a", "cpu": 1, "args": ["x" * 20_000], "command": ["true"]} for place in (0, 1)
    ]


def _submit_until_full(site: Site) -> tuple[list[str], httpx2.Response]:
    """The jobs that were acknowledged, and the answer that was none."""
    acknowledged: list[str] = []
    while len(acknowledged) < 1000:
        answer = _post(site, len(acknowledged))
        if answer.status_code != 201:
            return acknowledged, answer
        acknowledged += [job["id"] for job in answer.json()["jobs"]]
    raise AssertionError("the disk was never full")


def _post(site: Site, number: int) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {site.token}", "Idempotency-Key": f"k{number}"}
    return httpx2.post(f"{site.url}/api/v1/jobs", json={"jobs": _jobs()}, headers=headers, timeout=60)


def _put_until_refused(site: Site, has_room: threading.Event) -> dict[str, httpx2.Response]:
    """Make queues, small as they are, until there is no room even for those, or enough again: what was answered."""
    told: dict[str, httpx2.Response] = {}
    while not has_room.is_set() and all(answer.status_code == 200 for answer in told.values()):
        name = f"b{len(told)}"
        told[name] = _put_queue(site, name)
    return told


def _put_queue(site: Site, name: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {site.token}"}
    return httpx2.put(f"{site.url}/api/v1/queues/{name}", json={}, headers=headers, timeout=60)


def _submit(site: Site, number: int) -> list[str]:
    """Submit as soon as there is room."""
    _until(lambda: _post(site, number).status_code == 201)
    return [job["id"] for job in _post(site, number).json()["jobs"]]


def _until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, "it never came true"
