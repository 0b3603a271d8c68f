"""The next turn is decided while the last one is written: nobody is told of what is not durable yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.nodes import Node
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import Resources, parse_amount
from muster.server.access import Who
from muster.server.finding import cluster_thing, node_thing, queue_thing
from muster.server.news import News
from muster.server.service import Service
from muster.store.batch import Batch
from muster.store.errors import BadBatch, StoreDown
from muster.store.rows import Thing
from muster.store.store import Store

NOW_MS = 1_800_000_000_000


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A server that takes turns when the test says so, with one node, one queue and one job that waits."""
    cluster, queue = Cluster(name="lab"), Queue(name="a")
    amounts = Resources.of({"cpu": parse_amount("cpu", "4"), "pods": 110})
    node = Node(name="n", cluster="lab", allocatable=amounts)
    with closing(Store.open(f"sqlite:///{tmp_path / 'muster.db'}")) as store:
        made = Service(store, lambda: NOW_MS, Policy())
        events = [ev.ClusterSet(cluster=cluster), ev.NodeAdded(node=node), ev.QueueSet(queue=queue)]
        things = [cluster_thing(cluster), node_thing(node), queue_thing(queue)]
        made.turns.take([News(events=events, things=things)])
        made.turns.settle()
        made.leases.call("lab", "session", 0, NOW_MS, hello=True)
        made.submit({"jobs": [{"name": "train", "queue": "a", "cpu": 1}]}, Who(name="ann", is_admin=True))
        yield made
        made.turns.stop()
        made.writer.close()


def test_a_start_is_told_when_it_is_durable(service: Service) -> None:
    with service.store._transaction():  # nothing else is written meanwhile
        job = start(service)
        assert [key[0] for key in service.leases.live] == [job]
        assert service.leases.to_tell("lab", 10) == []
    service.turns.settle()

    assert [row.job for row in service.leases.to_tell("lab", 10)] == [job]


def test_a_job_that_is_cancelled_before_its_start_is_durable_is_told_to_stop_and_never_to_start(
    service: Service,
) -> None:
    with ThreadPoolExecutor(1) as somebody:
        with service.store._transaction():
            job = start(service)
            cancelled = somebody.submit(service.turns.take, [News(events=[ev.JobCancelled(job=job)])])
            while service.world.state.find(job) is not None:  # until the next turn is decided
                pass
            assert service.leases.to_tell("lab", 10) == []
        cancelled.result()
    service.turns.settle()

    assert [(row.job, row.state) for row in service.leases.to_tell("lab", 10)] == [(job, "stopping")]
    row = service.store.job(job)
    assert row is not None
    assert row.state == "cancelled"


def test_a_turn_of_which_only_the_answer_was_lost_is_not_written_twice(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all, cut = service.store.write_all, iter([True])

    def loses_one(batches: Sequence[Batch]) -> list[int]:
        lasts = write_all(batches)
        if next(cut, False):
            raise StoreDown("the connection was cut after the transaction was committed")
        return lasts

    before = service.store.last_turn()
    monkeypatch.setattr(service.store, "write_all", loses_one)
    job = start(service)
    service.turns.settle()

    assert service.store.last_turn() == before + 1
    assert [row.kind for row in service.store.events(0, 100, job=job)].count("started") == 1


def test_what_goes_wrong_with_a_turn_is_told_to_whoever_waits_for_it_and_comes_out_of_the_next(
    service: Service,
) -> None:
    news = News(things=[Thing(kind="queue", name="b", body={"nobody": object()})])

    service.turns.take([news])

    with pytest.raises(BadBatch):
        news.done.result(60)
    with pytest.raises(BadBatch):
        service.turns.take([])


def start(service: Service) -> str:
    """Take the turn that starts a job; its id. What was submitted is durable already."""
    waiting, service.turns._news = service.turns._news, []
    service.turns.take(waiting)
    (job,) = service.world.state.running
    return job
