"""The parts of the local agent that need no server: what ends mean, what tasks are told, who fits, what limits hold."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.agent.protocol import Answer, Lease, Place, Terms, understands
from muster.local import memory, outcomes, records, room
from muster.local.environment import variables, world
from muster.local.machine import Machine, parts, this_machine
from muster.local.outcomes import Seen, Verdict
from muster.local.sheets import Sheet, TaskOf, first_sheet, next_sheet
from muster.local.supervisor import found_in_path

SOURCES = Path(records.__file__).parents[2]
PATIENCE_S = 60.0


# --- what ends mean ------------------------------------------------------------------------------


def exited(code: int, ended: float = 1.0) -> dict[str, Any]:
    return {"how": "exited", "code": code, "ended": ended}


LOST = {"how": "lost", "message": "its supervisor was killed", "ended": 2.0}


def a_sheet(**widths: tuple[int, int]) -> Sheet:
    """A sheet with groups of so many tasks, and so many at least; those called `ps` do not decide."""
    tasks = [
        TaskOf(group=group, index=index, node="n", port=7000 + index)
        for group, (many, _) in widths.items()
        for index in range(many)
    ]
    groups = {group: Terms(min=least, max=many, decides=group != "ps") for group, (many, least) in widths.items()}
    launch = {"groups": {group: {"command": ["true"], "env": {}} for group in widths}}
    return Sheet(job="job", attempt=1, revision=0, queue="a", tasks=tasks, groups=groups, launch=launch)


@pytest.mark.parametrize(
    "sheet, ends, verdict",
    [
        pytest.param(a_sheet(main=(1, 1)), [None], None, id="who runs goes on"),
        pytest.param(a_sheet(main=(1, 1)), [exited(0)], Verdict("succeeded", "", 0), id="0 is success"),
        pytest.param(a_sheet(main=(1, 1)), [exited(3)], Verdict("failed", "exit code 3", 3), id="3 is not"),
        pytest.param(
            a_sheet(main=(1, 1)), [LOST], Verdict("lost", "its supervisor was killed"), id="nobody knows is lost"
        ),
        pytest.param(a_sheet(w=(2, 2)), [exited(0), None], None, id="a gang is not done before the last of its tasks"),
        pytest.param(
            a_sheet(w=(2, 2)),
            [None, exited(1)],
            Verdict("failed", "w/1: exit code 1", 1),
            id="a gang fails with the first of its tasks",
        ),
        pytest.param(
            a_sheet(w=(2, 2)),
            [exited(9, ended=5.0), exited(1, ended=4.0)],
            Verdict("failed", "w/1: exit code 1", 1),
            id="the first by time, not by rank",
        ),
        pytest.param(a_sheet(w=(2, 1)), [None, exited(1)], None, id="who keeps its min goes on"),
        pytest.param(
            a_sheet(w=(2, 1)), [exited(0), exited(1)], Verdict("succeeded", "", 0), id="and succeeds with who is left"
        ),
        pytest.param(
            a_sheet(ps=(1, 1), w=(1, 1)),
            [None, exited(0)],
            Verdict("succeeded", "", 0),
            id="groups that do not decide are not waited for",
        ),
        pytest.param(
            a_sheet(ps=(1, 1), w=(1, 1)),
            [exited(1), None],
            Verdict("failed", "ps/0: exit code 1", 1),
            id="but their failure counts",
        ),
        pytest.param(
            a_sheet(w=(1, 0), ps=(1, 1)),
            [exited(1), None],
            Verdict("failed", "w/0: exit code 1", 1),
            id="when nobody who decides is left it has failed, whatever its min",
        ),
    ],
)
def test_what_ends_mean_for_an_attempt(sheet: Sheet, ends: list[dict[str, Any] | None], verdict: Verdict) -> None:
    assert outcomes.verdict(sheet, [Seen(*pair) for pair in zip(sheet.tasks, ends, strict=True)]) == verdict


@given(st.lists(st.sampled_from([None, 0, 1]), min_size=1, max_size=5), st.integers(0, 5))
def test_a_verdict_stays_once_the_others_were_told_to_end(codes: list[int | None], least: int) -> None:
    """An agent that comes back finds those it told to end with whatever code they ended with, and decides the same."""
    sheet = a_sheet(w=(len(codes), min(least, len(codes))))
    before = [Seen(task, None if code is None else exited(code)) for task, code in zip(sheet.tasks, codes, strict=True)]
    verdict = outcomes.verdict(sheet, before)
    after = [seen if seen.end is not None else Seen(seen.task, exited(143), is_told=True) for seen in before]

    assert verdict is None or outcomes.verdict(sheet, after) == verdict


@pytest.mark.parametrize(
    "end, words",
    [
        pytest.param({"how": "exited", "code": 137, "signal": 9}, "killed by SIGKILL", id="a signal by its name"),
        pytest.param({"how": "exited", "code": 165, "signal": 37}, "killed by signal 37", id="or its number"),
        pytest.param(
            {"how": "out of memory", "used": 150 << 20, "limit": 100 << 20, "code": 137},
            "OUT_OF_MEMORY: it used 150Mi and its limit is 100Mi",
            id="memory with what was used and the limit",
        ),
        pytest.param({"how": "time limit", "code": 143}, "time limit", id="time"),
        pytest.param({"how": "lost"}, "lost", id="nothing is known"),
    ],
)
def test_ends_in_words(end: dict[str, Any], words: str) -> None:
    assert outcomes.in_words(end) == words


# --- what tasks are told -------------------------------------------------------------------------


def test_a_group_is_a_world_to_torchrun_and_the_job_to_muster() -> None:
    sheet = a_sheet(ps=(1, 1), w=(2, 2))

    told = variables(sheet, sheet.tasks[2], files={}, devices=None)

    torchrun = {name: told[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")}
    assert torchrun == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_PORT": "7000",
    }
    assert (told["MUSTER_RANK"], told["MUSTER_WORLD_SIZE"]) == ("2", "3")
    assert told["MUSTER_PEERS"] == "127.0.0.1:7000,127.0.0.1:7000,127.0.0.1:7001"


@pytest.mark.parametrize(
    "devices, seen",
    [
        pytest.param(["GPU-b"], "GPU-b", id="a task sees its own devices"),
        pytest.param([], "", id="and none if it asked for none"),
        pytest.param(None, None, id="nothing is said where there are no devices"),
    ],
)
def test_devices_are_handed_out_by_the_environment(devices: list[str] | None, seen: str | None) -> None:
    sheet = a_sheet(main=(1, 1))

    assert variables(sheet, sheet.tasks[0], files={}, devices=devices).get("CUDA_VISIBLE_DEVICES") == seen


def test_what_the_job_says_comes_before_torchrun_and_after_muster() -> None:
    sheet = a_sheet(w=(2, 2))
    sheet.launch["groups"]["w"]["env"] = {"MASTER_PORT": "1234", "MUSTER_RANK": "9"}

    told = variables(sheet, sheet.tasks[0], files={}, devices=None)

    assert (told["MASTER_PORT"], told["MUSTER_RANK"]) == ("1234", "0")


def test_who_stays_keeps_port_and_folder_and_who_comes_back_is_another_one() -> None:
    ports = iter(range(7000, 7100))
    terms = {"w": Terms(min=1, max=3)}

    def lease(revision: int, *indices: int) -> Lease:
        places = [Place(group="w", index=index, node="n") for index in indices]
        return Lease(
            job="j", attempt=1, revision=revision, name="j-1", queue="a", places=places, groups=terms, launch={}
        )

    first = first_sheet(lease(0, 0, 1), 0.0, lambda: next(ports))
    narrow = next_sheet(first, lease(1, 0), lambda: next(ports))
    wide = next_sheet(narrow, lease(2, 0, 1), lambda: next(ports))

    assert [(task.folder, task.port) for task in first.tasks] == [("w.0", 7000), ("w.1", 7001)]
    assert [(task.folder, task.port) for task in wide.tasks] == [("w.0", 7000), ("w.1.2", 7002)]
    assert world(wide)["size"] == 2
    assert world(wide)["revision"] == 2


@given(st.text(min_size=1, max_size=400, alphabet="ab.-_09"), st.integers(1, 10**9))
def test_folders_have_names_that_file_systems_take(job: str, attempt: int) -> None:
    name = records.folder_name(job, attempt)

    assert len(name.encode()) <= 200
    assert records.folder_name(job + "x", attempt) != name


# --- who fits ------------------------------------------------------------------------------------

NODE = {"cpu": 2000, "memory": 100, "gpu 0": 1000}


@pytest.mark.parametrize(
    "there, comes, is_full",
    [
        pytest.param(Terms(min=1, max=1, cpu=1000), Terms(min=1, max=1, cpu=1000), False, id="two halves fit"),
        pytest.param(Terms(min=1, max=1, cpu=1500), Terms(min=1, max=1, cpu=1000), True, id="more do not"),
        pytest.param(Terms(min=1, max=1, gpu=500), Terms(min=1, max=1, gpu=500), False, id="a device can be shared"),
        pytest.param(Terms(min=1, max=1, gpu=600), Terms(min=1, max=1, gpu=500), True, id="up to all of it"),
        pytest.param(Terms(min=1, max=1), Terms(min=1, max=1, whole_node=True), False, id="a whole node is free"),
        pytest.param(Terms(min=1, max=1, cpu=1), Terms(min=1, max=1, whole_node=True), True, id="or is not"),
    ],
)
def test_who_fits_beside_whom(there: Terms, comes: Terms, is_full: bool) -> None:
    def one(terms: Terms) -> dict[str, Any]:
        task = TaskOf(group="main", index=0, node="n", devices=[0] if terms.gpu else [])
        sheet = Sheet(job="j", attempt=1, revision=0, queue="a", tasks=[task], groups={"main": terms})
        return room.held([(sheet, task)], {"n": NODE})

    assert room.is_full({"n": NODE}, one(there), one(comes)) is is_full


def test_a_machine_is_cut_into_equal_nodes_and_its_gpus_are_dealt_out() -> None:
    machine = Machine(cpu=4000, memory=1001, gpus=("a", "b", "c"))

    cut = parts(machine, 2, "host")

    assert [(part.name, part.machine.cpu, part.machine.memory, part.machine.gpus) for part in cut] == [
        ("host-0", 2000, 500, ("a", "c")),
        ("host-1", 2000, 500, ("b",)),
    ]
    assert cut[0].report().amounts == {"cpu": "2000m", "memory": "500", "gpu": 2}
    assert [part.name for part in parts(machine, 1, "host")] == ["host"]


def test_this_machine_has_what_this_process_may_use() -> None:
    only = min(os.sched_getaffinity(0))
    script = "from muster.local.machine import this_machine; print(this_machine().cpu)"
    seen = subprocess.run(
        ["taskset", "-c", str(only), sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert int(seen.stdout) <= 1000
    assert 0 < this_machine().cpu <= len(os.sched_getaffinity(0)) * 1000
    assert 0 < this_machine().memory <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Library:
    """Stands in for NVIDIA's library, which needs its driver; answers as that does."""

    def __init__(self, uuids: list[str | bytes], has_driver: bool = True) -> None:
        self._uuids, self._has_driver = uuids, has_driver
        self.is_open = False

    def nvmlInit(self) -> None:  # noqa: N802  # its own names
        if not self._has_driver:
            raise RuntimeError("Driver Not Loaded")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._uuids)

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        return number

    def nvmlDeviceGetUUID(self, handle: int) -> str | bytes:  # noqa: N802
        return self._uuids[handle]


@pytest.mark.parametrize(
    "library, gpus",
    [
        pytest.param(Library(["GPU-1", "GPU-2"]), ("GPU-1", "GPU-2"), id="by their own ids, in order"),
        pytest.param(Library([b"GPU-1"]), ("GPU-1",), id="also of a library that answers in bytes"),
        pytest.param(Library(["GPU-1"], has_driver=False), (), id="none without a driver"),
        pytest.param(None, (), id="none without the library"),
    ],
)
def test_the_gpus_are_those_that_the_library_finds(
    library: Library | None, gpus: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)

    assert this_machine().gpus == gpus
    assert library is None or not library.is_open


# --- supervisors ---------------------------------------------------------------------------------


def ordered(folder: Path, command: list[str], **more: object) -> Path:
    order = {"command": command, "workdir": "/", "env": {}, "until": None, "grace": 0.1, "memory": 0, "groups": None}
    folder.mkdir(exist_ok=True)
    records.write(str(folder), records.ORDER, {"mark": folder.name, **order, **more})
    return folder


def supervised(*folders: Path) -> list[subprocess.Popen[bytes]]:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from muster.local import launcher, supervisor;"
        "launcher.prepare(); supervisor.main(sys.argv[2])"
    )
    return [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", program, str(SOURCES), str(folder)]) for folder in folders
    ]


class Launched:
    """A launcher process, seen from its agent's end of the wire."""

    def __init__(self) -> None:
        self.wire, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.wire.settimeout(PATIENCE_S)
        program = "import sys; sys.path.insert(0, sys.argv[1]); from muster.local.launcher import main; main()"
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", program, str(SOURCES), "1024"], stdin=theirs.fileno()
            )

    def __enter__(self) -> Launched:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
        assert self.process.wait(PATIENCE_S) == 0

    def start(self, folder: Path) -> int:
        """Have the task of a folder run; a descriptor of its supervisor."""
        self.wire.send(os.fsencode(folder))
        said, (descriptor,), _, _ = socket.recv_fds(self.wire, 1 << 16, 1)
        assert os.fsdecode(said) == str(folder)
        return descriptor

    def until_over(self, folder: Path) -> tuple[int, records.Body]:
        """Who ran the task, and how it ended."""
        said, descriptors, _, _ = socket.recv_fds(self.wire, 1 << 16, 1)
        assert (os.fsdecode(said), descriptors) == (str(folder), [])
        record, end = (records.read(str(folder), name) for name in (records.RECORD, records.END))
        assert record is not None
        assert end is not None
        return record["pid"], end

    def run(self, folder: Path) -> tuple[int, records.Body]:
        """The same, from its start on."""
        os.close(self.start(folder))
        return self.until_over(folder)


def test_a_supervisor_takes_one_task_after_another_and_leaves_with_its_launcher(tmp_path: Path) -> None:
    with Launched() as launched:
        first, end = launched.run(ordered(tmp_path / "first", ["sh", "-c", "exit 3"]))
        assert end["code"] == 3
        watching = launched.start(ordered(tmp_path / "second", ["sh", "-c", "kill -SEGV $$"]))
        second, end = launched.until_over(tmp_path / "second")
        assert (second, end["signal"]) == (first, signal.SIGSEGV)

    assert select.select([watching], [], [], PATIENCE_S)[0] == [watching]  # it has ended
    os.close(watching)


def test_two_tasks_at_once_have_a_supervisor_each(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with Launched() as launched:
        os.close(launched.start(ordered(tmp_path / "long", ["sh", "-c", f"read line < {gate}"])))
        other, _ = launched.run(ordered(tmp_path / "short", ["true"]))
        gate.write_text("go\n")
        assert launched.until_over(tmp_path / "long")[0] != other


def test_a_supervisor_that_is_killed_while_it_is_free_is_replaced(tmp_path: Path) -> None:
    with Launched() as launched:
        watching = launched.start(ordered(tmp_path / "first", ["true"]))
        first, _ = launched.until_over(tmp_path / "first")
        signal.pidfd_send_signal(watching, signal.SIGKILL)
        assert select.select([watching], [], [], PATIENCE_S)[0] == [watching]
        os.close(watching)
        second, end = launched.run(ordered(tmp_path / "second", ["true"]))

    assert second != first
    assert end["code"] == 0


def test_who_is_told_to_end_too_late_does_not_end_the_next_task(tmp_path: Path) -> None:
    with Launched() as launched:
        watching = launched.start(ordered(tmp_path / "first", ["true"]))
        launched.until_over(tmp_path / "first")
        signal.pidfd_send_signal(watching, signal.SIGTERM)
        os.close(watching)
        _, end = launched.run(ordered(tmp_path / "second", ["sh", "-c", "exit 3"]))

    assert (end["how"], end["code"]) == ("exited", 3)


def test_where_there_is_no_control_group_memory_is_watched(tmp_path: Path) -> None:
    """Also that of a child which left the process group."""
    hungry = "held = []\nwhile True: held.append(bytearray(b'x' * (4 << 20)))"
    command = ["sh", "-c", f'setsid "{sys.executable}" -c "$1" & wait', "sh", hungry]
    (process,) = supervised(ordered(tmp_path / "task", command, memory=80 << 20))

    assert process.wait(PATIENCE_S) == 0
    end = records.read(str(tmp_path / "task"), records.END)
    assert end is not None
    assert end["how"] == "out of memory"
    assert end["used"] > end["limit"] == 80 << 20


def test_of_two_supervisors_one_runs_the_task(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    folder = ordered(tmp_path / "task", ["sh", "-c", f"echo once >> {ledger}"])

    for process in supervised(folder, folder, folder):
        assert process.wait(PATIENCE_S) == 0

    assert ledger.read_text() == "once\n"
    assert records.read(str(folder), records.END) is not None


def test_a_record_is_whole_as_soon_as_it_is_there(tmp_path: Path) -> None:
    assert records.claim(str(tmp_path), "record", {"pid": 1}) is True
    assert records.claim(str(tmp_path), "record", {"pid": 2}) is False
    assert records.read(str(tmp_path), "record") == {"pid": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["record"]


def test_a_supervisor_that_cannot_work_says_so(tmp_path: Path) -> None:
    folder = ordered(tmp_path / "task", ["true"])
    (folder / records.OUT).mkdir()  # where the output should go

    (process,) = supervised(folder)

    process.wait(PATIENCE_S)
    end = records.read(str(folder), records.END)
    assert end is not None
    assert end["how"] == "lost"
    assert "its supervisor failed" in end["message"]


def test_programs_are_found_as_a_shell_finds_them(tmp_path: Path) -> None:
    (tmp_path / "tool").touch(mode=0o755)
    path = f"/no/such/folder:{tmp_path}:/bin"

    assert found_in_path("tool", path) == f"{tmp_path}/tool"
    assert found_in_path("./tool", path) == "./tool"
    assert found_in_path("sh", path) == "/bin/sh"


# --- control groups ------------------------------------------------------------------------------


def made_tree(folder: Path, version: int) -> list[memory.Mount]:
    """Files as the kernel has them, to see what is written where."""
    folder.mkdir(parents=True, exist_ok=True)
    if version == 2:
        (folder / "cgroup.subtree_control").write_text("memory")
    return [memory.Mount(version=version, path=str(folder), top="/")]


@pytest.mark.parametrize(
    "text, own, found",
    [
        pytest.param(
            "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
            "0::/user.slice",
            [(2, "/sys/fs/cgroup/user.slice")],
            id="version 2",
        ),
        pytest.param(
            "1 2 0:1 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "1 2 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids",
            "4:memory:/box\n0::/",
            [(1, "/sys/fs/cgroup/memory/box")],
            id="version 1, and only the hierarchy with memory",
        ),
        pytest.param(
            "1 2 0:1 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory",
            "4:memory:/docker/abc",
            [(1, "/sys/fs/cgroup/memory")],
            id="in a container the group is at the top of what is to be seen",
        ),
        pytest.param("1 2 0:1 / / rw - ext4 /dev/root rw", "", [], id="none"),
    ],
)
def test_where_the_own_group_is_to_be_seen(text: str, own: str, found: list[tuple[int, str]]) -> None:
    mounts = memory.mounts_in(text)

    assert [(mount.version, path) for mount, path in memory.groups_of(mounts, own)] == found


def test_version_2_is_told_its_limit_in_its_own_words(tmp_path: Path) -> None:
    group = memory.Group(version=2, path=str(tmp_path))
    for name in ("memory.max", "memory.oom.group", "memory.swap.max"):
        (tmp_path / name).touch()
    (tmp_path / "memory.events").write_text("low 0\noom 2\noom_kill 1\n")
    (tmp_path / "memory.peak").write_text("12345\n")

    group.limit(1 << 20)

    said = {name: (tmp_path / name).read_text() for name in ("memory.max", "memory.oom.group", "memory.swap.max")}
    assert said == {"memory.max": "1048576", "memory.oom.group": "1", "memory.swap.max": "0"}
    assert (group.kills(), group.peak()) == (1, 12345)


def test_where_no_group_can_be_made_there_is_none(tmp_path: Path) -> None:
    mounts = made_tree(tmp_path / "tree", 2)  # no kernel puts memory.max into what is made here

    assert memory.find_place("muster", mounts, "0::/") is None
    assert memory.find_place("muster", [], "") is None


def test_the_tightest_limit_on_the_way_up_counts(tmp_path: Path) -> None:
    mounts = made_tree(tmp_path, 2)
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path, limit in ((tmp_path / "a", "500"), (tmp_path / "a" / "b", "max")):
        (path / "memory.max").write_text(limit)

    assert memory.least_limit(mounts, "0::/a/b") == 500


# --- the protocol --------------------------------------------------------------------------------


def test_version_1_0_is_still_understood() -> None:
    """A server of 1.0 says nothing of grace and groups: then all tasks are needed, and nothing is limited."""
    said = {
        "number": 1,
        "leases": [
            {
                "job": "j",
                "attempt": 1,
                "name": "j-1",
                "queue": "a",
                "places": [{"group": "w", "index": index, "node": "n"} for index in (0, 1)],
                "launch": {"groups": {"w": {"command": ["true"]}}},
            }
        ],
    }
    (lease,) = msgspec.json.decode(json.dumps(said), type=Answer).leases
    sheet = first_sheet(lease, 0.0, lambda: 7000)

    assert understands("1.0")
    assert sheet.grace_s == 30.0
    assert sheet.terms("w") == Terms(min=2, max=2)
    bad = [Seen(sheet.tasks[0], exited(1)), Seen(sheet.tasks[1])]
    assert outcomes.verdict(sheet, bad) == Verdict("failed", "w/0: exit code 1", 1)


def test_the_launcher_needs_the_standard_library_only() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import muster.local.launcher; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, str(SOURCES)], capture_output=True, text=True, check=True
    ).stdout.split()

    outside = {name.partition(".")[0] for name in loaded} - {*sys.stdlib_module_names, "muster"}
    assert outside == {"__main__"} - set(sys.stdlib_module_names)
    assert "asyncio" not in loaded
