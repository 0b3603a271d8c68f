"""One cluster for the whole run, a namespace for each test; and small clusters for tests that break theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kube import Shared, a_client, run, shared_cluster

from muster.kubernetes.dev.cluster import Cluster, Wanted
from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.kinds import NAMESPACES


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Shared:
    """The cluster of this run, with controllers and four hollow nodes. Do not break it."""
    here = tmp_path_factory.getbasetemp()
    return shared_cluster(here if worker_id == "master" else here.parent)


@pytest.fixture
def namespace(shared: Shared) -> Iterator[str]:
    """A namespace of this test's own."""

    async def make() -> str:
        async with a_client(shared.access) as client:
            made = await client.create(NAMESPACES, {"metadata": {"generateName": "test-"}})
            return made.metadata.name

    async def remove(name: str) -> None:
        async with a_client(shared.access) as client:
            await client.delete(NAMESPACES, name)

    name = run(make())
    yield name
    run(remove(name))


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """etcd and an API server, for the tests of one file: to be stopped, started and compacted."""
    wanted = Wanted(hollow=None, has_controllers=False)
    with Cluster(programs(), tmp_path_factory.mktemp("breakable") / "cluster", wanted) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def schedulable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Controllers and two nodes of four cores, for the schedulers of one file: they see everybody's pods."""
    wanted = Wanted(
        hollow=Hollow(nodes=2, cpu="4", memory="64Gi", gpus=2),
        runtime_config="scheduling.k8s.io/v1alpha2=true",
        feature_gates="GenericWorkload=true",
    )
    with Cluster(programs(), tmp_path_factory.mktemp("schedulable") / "cluster", wanted) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """As above, but each watch is answered from etcd: what was compacted is forgotten at once."""
    wanted = Wanted(hollow=None, has_controllers=False, apiserver_flags=("--watch-cache=false",))
    with Cluster(programs(), tmp_path_factory.mktemp("forgetful") / "cluster", wanted) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with Kubernetes' own scheduler, and nobody else."""
    wanted = Wanted(hollow=None, has_controllers=False, has_scheduler=True)
    with Cluster(programs(), tmp_path_factory.mktemp("judged") / "cluster", wanted) as cluster:
        yield cluster
