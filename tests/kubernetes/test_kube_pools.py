"""Pools on a real API server, with the objects of ai-scheduler-pools.md as they are printed there."""

from __future__ import annotations

import asyncio
import re
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kube import MUSTER, Shared, kept, run
from scheduling import MANIFESTS, Space, access_to, scheduler, scheduler_process, space, told
from typer.testing import CliRunner

from muster.cli.main import app
from muster.kubernetes.cache import Cache
from muster.kubernetes.client import Client
from muster.kubernetes.dev.cluster import Cluster
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.kubelet import node_manifest
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.errors import Invalid
from muster.kubernetes.groups import PRIORITY_CLASSES
from muster.kubernetes.kinds import NODES, Kind, Scope
from muster.kubernetes.objects import Condition, Meta, Pod
from muster.kubernetes.pools import POOLS, Pool
from muster.kubernetes.why import why

DOCUMENT = Path(__file__).parents[2] / "examples" / "kubernetes" / "pools"
CPU_NODE, GPU_NODE, MASTER = {"cpu": "true"}, {"gpu": "true"}, {"kubernetes.io/role": "master"}


class JobStatus(msgspec.Struct, frozen=True):
    """What became of a Job."""

    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """A batch/v1 Job."""

    metadata: Meta
    status: JobStatus = JobStatus()


JOBS = Kind(type=Job, plural="jobs", version="v1", group="batch")


class Place:
    """A cluster of pools: two nodes of no pool, and those that a test adds."""

    def __init__(self, cluster: Cluster, here: Space, pools: Cache[Pool]) -> None:
        self.cluster, self.here, self.pools = cluster, here, pools
        self.client: Client = here.client

    async def kubectl(self, *words: str) -> str:
        """What a real kubectl prints."""
        command = [programs().kubectl, "--kubeconfig", self.cluster.kubeconfig, "-n", self.here.name, *words]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def apply(self, *names: str) -> None:
        """Apply objects of the document, as they are."""
        files = [word for name in names for word in ("-f", str(DOCUMENT / f"{name}.yaml"))]
        await self.kubectl("apply", *files)

    async def pool(self, name: str, labels: Mapping[str, str], **spec: Any) -> None:
        """Make a pool, or give it another spec."""
        body = {"apiVersion": POOLS.api_version, "kind": "Pool", "metadata": {"name": name}}
        body["spec"] = {"nodeSelector": {"matchLabels": dict(labels)}, **spec}
        query = {"fieldManager": "test", "force": "true"}
        await self.client.patch(POOLS, name, body, how="application/apply-patch+yaml", query=query)

    async def pod(self, name: str, pool: str, cpu: int = 4, **spec: Any) -> Pod:
        """A pod of a pool, which fills a node unless said."""
        annotations = {"resource.aibee.cn/pool": pool}
        return await self.here.pod(name, cpu, annotations=annotations, schedulerName="ai-scheduler", **spec)

    async def job(self, name: str, pool: str) -> None:
        """A batch/v1 Job of one pod that fills a node."""
        asked = {"requests": {"cpu": "4"}}
        spec = {
            "schedulerName": "ai-scheduler",
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "perl", "command": ["perl"], "resources": asked}],
        }
        meta = {"annotations": {"resource.aibee.cn/pool": pool}}
        body = {"metadata": {"name": name}, "spec": {"template": {"metadata": meta, "spec": spec}}}
        await self.client.create(JOBS, body, self.here.name)

    async def stands(self, pool: str, kind: str = "cpu", **expected: str) -> None:
        """Wait until the status of a pool says so of a resource."""

        def says(there: Mapping[tuple[str, str], Pool]) -> bool:
            status = there["", pool].status if ("", pool) in there else {}
            row = status.get("resources", {}).get(kind, {})
            return {column: row.get(column) for column in expected} == expected

        await self.pools.until(says)

    def pods_of(self, job: str) -> list[Pod]:
        """The pods of a Job that are there in any way."""
        there = self.here.pods.objects.values()
        return [pod for pod in there if pod.metadata.controller and pod.metadata.controller.name == job]

    def nodes_of(self, job: str) -> Counter[str]:
        """How many pods of a Job are on which node; those without one under the empty name."""
        there = [pod for pod in self.pods_of(job) if not pod.is_over and not pod.metadata.deletion_timestamp]
        return Counter(pod.spec.node_name for pod in there)

    async def job_is_on(self, job: str, **nodes: int) -> None:
        """Wait until so many pods of a Job are on these nodes, and on no others; `nowhere` are those that wait."""
        expected = {node.replace("nowhere", "").replace("_", "-"): count for node, count in nodes.items()}
        await self.here.when(lambda _: self.nodes_of(job) == expected)


@asynccontextmanager
async def place(cluster: Cluster, **nodes: Mapping[str, str]) -> AsyncIterator[Place]:
    """Nodes of four cores with these labels besides node-0 and node-1; nothing of it stays."""
    async with space(cluster) as here, kept(Cache(here.client, POOLS)) as pools, AsyncExitStack() as after:
        for name, labels in nodes.items():
            hollow = Hollow(cpu="4", memory="64Gi")
            await here.client.create(NODES, node_manifest(name.replace("_", "-"), hollow, labels))
            after.push_async_callback(here.client.delete, NODES, name.replace("_", "-"))
        try:
            yield Place(cluster, here, pools)
        finally:
            for job in await here.client.list(JOBS, Scope(namespace=here.name)):
                await here.client.delete(JOBS, job.metadata.name, here.name, propagation="Background")
            for pool in await here.client.list(POOLS):
                await here.client.delete(POOLS, pool.metadata.name)


# --- the document's own objects ------------------------------------------------------------------


def test_the_documents_pools_and_jobs_do_what_it_says(schedulable: Cluster) -> None:
    """Jobs fill their own pool, borrow from those that share, and the more urgent one takes the pool over; no Job fails
    for it, though more of its pods gave way than its backoffLimit."""

    async def story() -> tuple[str, str, str, Job]:
        labels = {"cpu_0": CPU_NODE, "cpu_1": CPU_NODE, "both": {**CPU_NODE, "pool": "demo"}, "master": MASTER}
        async with place(schedulable, **labels) as it, scheduler(access_to(schedulable)):
            await it.kubectl("apply", "-f", str(MANIFESTS / "job-evictions.yaml"))
            await it.client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
            await it.apply("cpu-pool", "masters", "demo")
            await it.stands("masters", "nodes", capacity="1")
            await it.stands("default", "nodes", capacity="3")
            await it.apply("test-job-cpu")
            await it.stands("cpu-pool", used="8", shared="0", borrowed="2", pending="0", total="24")
            await it.stands("default", used="2", shared="2")
            first = it.nodes_of("test-job-cpu")
            assert (first["cpu-0"], first["cpu-1"], first["master"]) == (4, 4, 0)
            printed = await asyncio.to_thread(muster_pools, schedulable)
            await it.apply("test-job")
            await it.stands("cpu-pool", used="8", shared="0", borrowed="12", pending="112")
            await it.here.when(lambda _: it.nodes_of("test-job").total() == 130)
            taken = it.nodes_of("test-job")
            assert (taken["cpu-0"], taken["cpu-1"], taken["master"], taken[""]) == (4, 4, 0, 130 - 8 - 10)
            # An evicted pod is gone for good once the job controller has made up its mind about it.
            await it.here.when(lambda _: len(it.pods_of("test-job-cpu")) == 2)
            listed = await it.kubectl("get", "pool")
            described = await it.kubectl("describe", "pool", "cpu-pool")
            return printed, listed, described, await it.client.get(JOBS, "test-job-cpu", it.here.name)

    printed, listed, described, job = run(story())

    assert [line.split()[:8] for line in printed.splitlines() if "cpu  " in line] == [
        ["default", "✓", "✓", "✓", "cpu", "12", "12", "2"],
        ["cpu-pool", "✓", "✓", "✓", "cpu", "8", "8", "8"],
        ["demo", "✓", "✓", "✓", "cpu", "0", "0", "0"],
        ["masters", "x", "x", "x", "cpu", "4", "4", "0"],
    ]
    rows = [line.split() for line in listed.splitlines()]
    assert (rows[0][0], rows[0][-1]) == ("NAME", "AGE")
    assert {row[0]: row[1:4] for row in rows[1:]} == {
        "cpu-pool": ["true", "true", "true"],
        "default": ["true", "true", "true"],
        "demo": ["true", "true", "true"],
        "masters": ["false", "false", "false"],
    }
    lines = [" ".join(line.split()) for line in described.splitlines()]
    for said in ("Kind: Pool", "Disable Borrowing: false", "Disable Preemption: false", "Disable Sharing: false"):
        assert said in lines
    assert job.status.conditions == ()


def muster_pools(cluster: Cluster, *options: str) -> str:
    command = [*MUSTER, "pools", "--kubeconfig", str(cluster.kubeconfig), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


# --- borrowed, taken back, made again ------------------------------------------------------------


def test_a_borrower_is_killed_made_again_and_waits_at_home_until_its_pool_is_no_more(schedulable: Cluster) -> None:
    async def story() -> tuple[str, str]:
        async with (
            place(schedulable, cpu_0=CPU_NODE, gpu_0=GPU_NODE) as it,
            scheduler(access_to(schedulable)),
        ):
            await it.pool("cpu-pool", CPU_NODE, borrowingPools=["gpu-pool"])
            await it.pool("gpu-pool", GPU_NODE)
            await it.stands("gpu-pool", allocatable="4")
            await it.job("first", "cpu-pool")
            await it.job_is_on("first", cpu_0=1)
            await it.job("second", "cpu-pool")
            await it.job_is_on("second", gpu_0=1)
            (borrower,) = [name for name, node in it.here.bound().items() if node == "gpu-0"]
            scheduled = (await told(it.here, borrower, "Scheduled")).note
            await it.pod("owner", "gpu-pool")
            assert await it.here.are_bound("owner") == {"owner": "gpu-0"}
            preempted = (await told(it.here, borrower, "Preempted")).note
            await it.job_is_on("second", nowhere=1)  # by the job controller, after ten seconds
            await it.stands("cpu-pool", "pods", pending="1", borrowed="0")
            await it.client.delete(POOLS, "cpu-pool")
            await it.here.when(lambda _: set(it.nodes_of("second")) & {"cpu-0", "node-0", "node-1"})
            await it.stands("default", allocatable="12", used="8", shared="0")
            return scheduled, preempted

    scheduled, preempted = run(story())

    assert scheduled.endswith("to gpu-0, borrowed from pool gpu-pool")
    assert preempted.startswith("it gives way to test-")
    assert preempted.endswith("/owner (borrower)")


# --- changed while pods run ----------------------------------------------------------------------


def test_switches_and_selectors_hold_as_soon_as_they_change(schedulable: Cluster) -> None:
    async def story() -> None:
        async with (
            place(schedulable, cpu_0=CPU_NODE, gpu_0=GPU_NODE) as it,
            scheduler(access_to(schedulable)),
        ):
            await it.pool("cpu-pool", CPU_NODE, disableBorrowing=True)
            await it.pool("gpu-pool", GPU_NODE, disableSharing=True)
            await it.stands("gpu-pool", allocatable="4")
            for name in ("a", "b"):
                await it.pod(name, "cpu-pool")
            await it.stands("cpu-pool", used="4", pending="4", borrowed="0")
            now_ms = int(time.time() * 1000)
            answers = [await why(it.client, it.here.name, name, now_ms) for name in ("a", "b")]
            assert sorted(answer.state for answer in answers) == ["bound", "waiting"]  # the plugin knows pools too
            await it.pool("cpu-pool", CPU_NODE, borrowingPools=["gpu-pool"])
            await it.pools.until(lambda there: there["", "cpu-pool"].status.get("observedGeneration") == 2)
            await it.stands("cpu-pool", pending="4", borrowed="0")  # the other does not share yet
            await it.pool("gpu-pool", GPU_NODE)
            await it.stands("cpu-pool", used="4", pending="0", borrowed="4")
            # Another selector: whoever is on cpu-0 has become a borrower, the first to go.
            await it.pool("cpu-pool", {"cpu": "nobody"}, disableBorrowing=True)
            await it.pool("gpu-pool", CPU_NODE)
            await it.stands("gpu-pool", used="4", shared="4")
            await it.pod("owner", "gpu-pool")
            assert await it.here.are_bound("owner") == {"owner": "cpu-0"}
            await it.stands("gpu-pool", used="4", shared="0")

    run(story())


def test_with_preemption_off_for_the_whole_scheduler_nothing_is_taken_back(schedulable: Cluster) -> None:
    async def story() -> tuple[dict[str, Any], list[str]]:
        async with place(schedulable, cpu_0=CPU_NODE, gpu_0=GPU_NODE) as it:
            await it.pool("cpu-pool", CPU_NODE, borrowingPools=["gpu-pool"])
            await it.pool("gpu-pool", GPU_NODE, disableBorrowing=True)
            with scheduler_process(schedulable, "--preemption", "off") as process:
                for name in ("a", "b"):
                    await it.pod(name, "cpu-pool")
                await it.here.are_bound("a", "b")
                await it.pod("owner", "gpu-pool", priorityClassName="system-cluster-critical")
                await it.stands("gpu-pool", pending="4", used="4", shared="4")
                await it.here.says("owner")
                process.terminate()
                assert await asyncio.to_thread(process.wait) == 0  # it has given its lease back: the next need not wait
            return dict(it.pools.objects), sorted(it.here.bound())

    pools, bound = run(story())

    assert bound == ["a", "b"]
    assert {pool.metadata.name: pool.status["preemption"] for pool in pools.values()} == {
        "default": False,
        "cpu-pool": False,
        "gpu-pool": False,
    }


def test_the_default_pool_is_made_again_and_a_status_that_is_not_true_is_put_right(schedulable: Cluster) -> None:
    async def story() -> None:
        async with place(schedulable) as it, scheduler(access_to(schedulable)):
            await it.stands("default", capacity="8", used="0")
            first = it.pools.objects["", "default"].metadata.uid
            await it.client.delete(POOLS, "default")
            await it.pools.until(lambda there: ("", "default") in there and there["", "default"].metadata.uid != first)
            await it.stands("default", capacity="8", used="0")
            wrong = {"status": {"resources": {"cpu": {"used": "77"}}}}
            await it.client.patch(POOLS, "default", wrong, subresource="status")
            await it.stands("default", used="0")

    run(story())


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, spec, says",
    [
        pytest.param("default", {"nodeSelector": {}}, "it takes no nodeSelector", id="a selector of the default pool"),
        pytest.param("a", {"disableSharing": "yes"}, "spec.disableSharing", id="a switch that is no boolean"),
        pytest.param(
            "a",
            {"nodeSelector": {"matchLabels": {"cpu": "t r u e"}}},
            'spec.nodeSelector.matchLabels.cpu: Invalid value: "t r u e"',
            id="a label that cannot be",
        ),
        pytest.param(
            "a",
            {"nodeSelector": {"matchExpressions": [{"key": "cpu", "operator": "Like"}]}},
            'Unsupported value: "Like": supported values: "In", "NotIn", "Exists", "DoesNotExist"',
            id="an operator that there is not",
        ),
        pytest.param(
            "a",
            {"nodeSelector": {"matchExpressions": [{"key": "cpu", "operator": "In"}]}},
            "In and NotIn must have values",
            id="no values",
        ),
    ],
)
def test_bad_pools_are_refused_with_the_field(schedulable: Cluster, name: str, spec: Any, says: str) -> None:
    async def story() -> None:
        async with place(schedulable) as it:
            body = {"apiVersion": POOLS.api_version, "kind": "Pool", "metadata": {"name": name}, "spec": spec}
            with pytest.raises(Invalid, match="(?s)" + re.escape(says)):
                await it.client.create(POOLS, body)

    run(story())


@pytest.mark.parametrize(
    "options, code, says",
    [
        pytest.param(["--kube", "--server", "http://s"], 2, "--server: 'http://s': must not be given", id="a server"),
        pytest.param(["--kube-context", "c", "--context", "x"], 2, "--context: 'x': must not be given", id="a context"),
        pytest.param(["--kubeconfig", "/nowhere"], 2, "'/nowhere': there is no such file", id="no such file"),
        pytest.param(["--kubeconfig", "{nobody}"], 3, "127.0.0.1:1", id="nobody there"),
        pytest.param(["--kubeconfig", "{shared}"], 1, "kubectl apply -f deploy/kubernetes/pools.yaml", id="no Pools"),
    ],
)
def test_what_muster_pools_refuses(shared: Shared, tmp_path: Path, options: list[str], code: int, says: str) -> None:
    nobody = tmp_path / "kubeconfig"
    nobody.write_text(shared.authority.kubeconfig("https://127.0.0.1:1", "someone"))
    where = {"nobody": nobody, "shared": shared.kubeconfig}

    done = CliRunner().invoke(app, ["pools", *(option.format(**where) for option in options)])

    assert done.exit_code == code
    assert says in done.stderr


def test_pools_that_no_scheduler_has_counted_are_named(schedulable: Cluster) -> None:
    async def story() -> Any:
        async with place(schedulable) as it:
            await it.pool("cpu-pool", CPU_NODE)
            asked = ["pools", "--kubeconfig", str(schedulable.kubeconfig)]
            return await asyncio.to_thread(CliRunner().invoke, app, asked)

    done = run(story())

    assert done.exit_code == 0
    assert done.stderr == "nothing is counted of cpu-pool: does `muster kube-scheduler` run there?\n"
