"""`muster dev-cluster`: it starts, says how to reach it, and leaves nothing behind however it ends."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kube import MUSTER, PATIENCE_S, a_client, kept, run

from muster.kubernetes.access import from_kubeconfig
from muster.kubernetes.cache import Cache
from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.kubelet import SILENT
from muster.kubernetes.dev.programs import ASSETS, BUILT, MODULE, NoPrograms, cache_folder, programs, release
from muster.kubernetes.kinds import NODES


class Up:
    """`muster dev-cluster up`, running."""

    def __init__(self, home: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*MUSTER, "dev-cluster", "up", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(home)},  # one that is killed leaves its folder
        )
        assert self.process.stdout is not None
        self.greeting = "".join(iter(self.process.stdout.readline, "  Ctrl-C ends it, and nothing is left\n"))
        found = re.search("KUBECONFIG=(.*)", self.greeting)
        assert found is not None, self.greeting
        self.kubeconfig = Path(found[1])

    @property
    def folder(self) -> Path:
        return self.kubeconfig.parent

    def programs(self) -> list[int]:
        """Processes of the cluster, which name its folder."""
        return [pid for pid, command in _commands() if str(self.folder) in command and pid != self.process.pid]

    def ended(self) -> tuple[int, str]:
        """Wait for the end; the exit code, and what was said on stderr."""
        _, errors = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, errors


@contextmanager
def up(home: Path, *options: str) -> Iterator[Up]:
    running = Up(home, *options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


def _commands() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:  # gone meanwhile
                continue


def gone(pids: list[int]) -> bool:
    """Whether processes are gone; waits until the kernel says so."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with os.fdopen(handle):
            if not select.select([handle], [], [], PATIENCE_S)[0]:
                return False
    return True


def node_names(kubeconfig: Path) -> list[str]:
    async def ask() -> list[str]:
        async with a_client(from_kubeconfig([kubeconfig])) as client:
            return sorted(each.metadata.name for each in await client.list(NODES) if each.is_ready)

    return run(ask())


def test_ctrl_c_ends_everything_and_nothing_is_left(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "3", "--gpus", "8", "--scheduler") as cluster:
        assert node_names(cluster.kubeconfig) == ["node-0", "node-1", "node-2"]
        there = cluster.programs()
        assert len(there) == 5, "etcd, server, controllers, scheduler, kubelets"

        cluster.process.send_signal(signal.SIGINT)

        assert cluster.ended() == (0, "")
        assert gone(there)
        assert not cluster.folder.exists()


def test_a_cluster_whose_command_is_killed_ends_too(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0", "--no-controllers") as cluster:
        there = cluster.programs()
        assert len(there) == 3, "etcd, server, kubelets"

        cluster.process.kill()
        cluster.ended()

        assert gone(there)


def test_a_program_that_dies_ends_the_cluster_with_its_last_words(tmp_path: Path) -> None:
    with up(tmp_path, "--nodes", "0", "--no-controllers") as cluster:
        (etcd,) = [pid for pid, command in _commands() if str(cluster.folder / "etcd") in command]

        os.kill(etcd, signal.SIGKILL)
        code, errors = cluster.ended()

        assert (code, "etcd ended with -9" in errors) == (1, True)
        assert gone(cluster.programs())


@pytest.mark.parametrize(
    "options, words",
    [
        pytest.param(["--cpu", "many"], "cpu: 'many'", id="an amount that is none"),
        pytest.param(["--run-for", "soon"], "--run-for soon: not a duration", id="a time that is none"),
        pytest.param(["--label", "zone"], "--label zone: not a label such as zone=a", id="a label without a value"),
        pytest.param(["--data", "."], "--data .: not empty", id="a folder that is in use"),
        pytest.param(["--nodes", "-1"], "--nodes", id="fewer nodes than none"),
    ],
)
def test_options_that_are_wrong_are_said_before_anything_starts(options: list[str], words: str) -> None:
    done = subprocess.run([*MUSTER, "dev-cluster", "up", *options], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert words in done.stderr


def test_without_its_extra_muster_says_what_to_install() -> None:
    code = "import sys; sys.modules['aiohttp'] = None; from muster.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "dev-cluster", "build"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "aiohttp is not installed: pip install 'muster-scheduler[kubernetes]'\n"


def test_programs_that_are_missing_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(ASSETS, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPrograms, match=r"etcd, kube-apiserver, .* missing: run `muster dev-cluster build`"):
        programs()

    monkeypatch.setenv(ASSETS, str(tmp_path))
    with pytest.raises(NoPrograms, match=f"missing in {tmp_path}, which {ASSETS} names"):
        programs()


def test_assets_that_are_named_come_before_those_that_were_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        (tmp_path / name).touch(mode=0o755)
    built = programs()
    monkeypatch.setenv(ASSETS, str(tmp_path))

    found = programs()

    assert (found.etcd, found.apiserver, found.kubectl) == tuple(
        tmp_path / name for name in ("etcd", "kube-apiserver", "kubectl")
    )
    assert found.controllers == built.controllers, "which such folders usually have not"


def test_a_node_that_falls_silent_is_found_lost_by_the_real_controller(tmp_path: Path) -> None:
    wanted = Wanted(hollow=Hollow(nodes=2, heartbeat_s=1.0))

    async def story(cluster: Cluster) -> tuple[bool, set[str]]:
        async with a_client(from_kubeconfig([cluster.kubeconfig])) as client:
            await client.patch(NODES, "node-1", {"metadata": {"annotations": {SILENT: "true"}}})
            async with kept(Cache(client, NODES)) as nodes:
                await nodes.until(lambda there: len(there["", "node-1"].spec.taints) == 2)
                taints = {taint.key for taint in nodes.objects["", "node-1"].spec.taints}
                return nodes.objects["", "node-0"].is_ready, taints

    with Cluster(programs(), tmp_path / "cluster", wanted) as cluster:
        other_is_ready, taints = run(story(cluster))

    assert other_is_ready
    assert taints == {"node.kubernetes.io/unreachable"}


def test_who_builds_while_another_builds_waits_and_takes_what_that_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = programs()
    monkeypatch.delenv(ASSETS, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [*MUSTER, "dev-cluster", "build"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert second.stderr is not None
        said = [second.stderr.readline(), second.stderr.readline()]
        for name in ("etcd", *BUILT):
            (folder / name).symlink_to(made.etcd if name == "etcd" else made.kubectl.parent / name)

    out, errors = second.communicate(timeout=PATIENCE_S)

    assert "waiting for another build" in said[1]
    assert (second.returncode, out, errors) == (0, f"{folder}\n", "")


def test_the_modules_of_a_release_belong_together() -> None:
    """k8s.io/api and its sisters are released as v0.x.y with v1.x.y of Kubernetes."""
    replaced = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)

    assert len(replaced) > 20
    assert {f"v1.{version}" for version in replaced} == {release()}
