"""What queues and users had: exact to the millisecond, with what came to nothing told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import Site

from muster.agent.protocol import Report
from muster.model import events as ev
from muster.model.fleet import Cluster
from muster.model.nodes import Node
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.model.resources import GIB, GPU, MICRO, Resources
from muster.sdk.client import Client
from muster.server.access import Who
from muster.server.finding import cluster_thing, node_thing, queue_thing
from muster.server.metrics import exposition
from muster.server.news import Heard, News
from muster.server.service import Service
from muster.server.usage import MOST_WIDTHS, WASTED, Sum, Used, held_between, used, widened, widths_at_start
from muster.store.store import Store

ADMIN = Who(name="admin", is_admin=True)
BEGAN_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
CORES = 4  # of each of two nodes, with as many GiB and half as many GPUs


class Bench:
    """A service on two nodes whose turns are taken one by one, at moments of ours."""

    def __init__(self, database: str) -> None:
        self.now_ms = BEGAN_MS
        self._database = database
        self._open()
        cluster, queues = Cluster(name="lab"), [Queue(name="a"), Queue(name="b", weight=2 * MICRO)]
        amounts = Resources.of({"cpu": CORES * 1000, "memory": CORES * GIB, GPU: 2000, "pods": 110})
        nodes = [Node(name=f"n{number}", cluster="lab", allocatable=amounts) for number in range(2)]
        events = [ev.ClusterSet(cluster=cluster), *(ev.NodeAdded(node=node) for node in nodes)]
        things = [cluster_thing(cluster), *map(node_thing, nodes), *map(queue_thing, queues)]
        self._turn(News(events=[*events, *(ev.QueueSet(queue=queue) for queue in queues)], things=things))

    def _open(self) -> None:
        self.service = Service(Store.open(self._database), lambda: self.now_ms, Policy(over_share=None))

    def restart(self) -> None:
        """The server ends, and another begins."""
        self.close()
        self._open()

    def submit(self, **job: Any) -> str:
        """A job that is considered at once."""
        ((job_id, _),) = self.service.submit({"jobs": [job]}, ADMIN)
        self._turn()
        return job_id

    def later(self, hours: float) -> None:
        """Time passes."""
        self.now_ms += round(hours * HOUR_MS)

    def report(self, job_id: str, result: str, attempt: int = 1) -> None:
        """The agent says that an attempt is over."""
        over = Report(job=job_id, attempt=attempt, stage="ended", result=result)  # type: ignore[arg-type]
        self._turn(News(heard=Heard(cluster="lab", reports=[over])))

    def requeue(self, job_id: str, cause: str) -> None:
        """A job goes back to its queue, as after `muster preempt`."""
        self._turn(News(events=[ev.JobRequeued(job=job_id, attempt=1, cause=cause)]))

    def fail(self, job_id: str, cause: str) -> None:
        """A job fails for good, before its agent says so."""
        self._turn(News(events=[ev.JobFailed(job=job_id, attempt=1, cause=cause)]))

    def cancel(self, job_id: str) -> None:
        """A job is cancelled."""
        self._turn(News(events=[ev.JobCancelled(job=job_id)]))

    def used(self, by: Any = "queue", hours: float = 1_000) -> dict[str, dict[str, Any]]:
        """Attempts and hours of the last so many hours, and what was good and what came to nothing of it, if any."""
        from_ms = self.now_ms - round(hours * HOUR_MS)
        found = used(self.service.store.attempts(from_ms), by, from_ms, self.now_ms, lambda _queue: True)
        return {
            name: {part: told(sums) for part, sums in _parts(one).items() if sums.attempts}
            for name, one in found.items()
        }

    def metric(self, name: str, resource: str = "cpu") -> dict[str, float]:
        """What /metrics says of cores or GPUs, in hours, by why if there is one; not what is 0."""
        line = rf'muster_{name}_seconds_total{{cluster="lab",resource="{resource}"(?:,why="(\w+)")?}} (\S+)'
        found = re.findall(line, exposition(self.service))
        return {why: float(amount) / 1000 / 3600 for why, amount in found if float(amount)}

    def _turn(self, *news: News) -> None:
        turns = self.service.turns
        waiting, turns._news = turns._news, []
        turns.take([*waiting, *news])
        turns.settle()

    def close(self) -> None:
        """Let go of the store."""
        self.service.writer.close()
        self.service.store.close()


def _parts(one: Used) -> dict[str, Sum]:
    return {"all": one.all, "good": one.good, **{why: one.wasted[why] for why in WASTED}}


def told(total: Sum) -> tuple[float, ...]:
    """Attempts, core-, GiB- and GPU-hours."""
    return (total.attempts, *total.hours().values())


@pytest.fixture(params=["sqlite", "postgresql"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sqlite":
        made = Bench(f"sqlite:///{tmp_path / 'muster.db'}")
    else:
        database = request.getfixturevalue("postgres")
        made = Bench(database.url(database.database()))
    yield made
    made.close()


# --- at moments of ours --------------------------------------------------------------------------


def test_a_job_counts_from_its_start_to_its_end_and_what_runs_until_now(bench: Bench) -> None:
    done = bench.submit(queue="a", cpu=2, memory="1Gi", gpu=1)
    bench.later(3)
    bench.report(done, "succeeded")
    bench.submit(queue="b", cpu=1, memory="512Mi")
    bench.later(0.5)

    assert bench.used() == {
        "a": {"all": (1, 6, 3, 3), "good": (1, 6, 3, 3)},
        "b": {"all": (1, 0.5, 0.25, 0), "good": (1, 0.5, 0.25, 0)},
    }
    assert bench.used("user") == {"admin": {"all": (2, 6.5, 3.25, 3), "good": (2, 6.5, 3.25, 3)}}


def test_only_what_was_held_in_the_time_asked_for_counts(bench: Bench) -> None:
    first, second = bench.submit(queue="a", cpu=1), bench.submit(queue="a", cpu=2)
    bench.later(2)
    bench.report(first, "succeeded")
    bench.later(2)

    assert bench.used(hours=4)["a"]["all"][:2] == (2, 10)
    assert bench.used(hours=3)["a"]["all"][:2] == (2, 7)
    assert bench.used(hours=1)["a"]["all"][:2] == (1, 2)
    bench.report(second, "succeeded")
    bench.later(5)
    assert bench.used(hours=4) == {}


ENDS = [
    pytest.param("preempted", "preempted", id="who gave way wasted its time"),
    pytest.param("lost", "lost", id="so did who was lost with its node"),
    pytest.param("failed", "failed", id="so did who failed and is tried again"),
    pytest.param("moved", "moved", id="and who was moved, which begins again elsewhere"),
]


@pytest.mark.parametrize("cause, why", ENDS)
def test_an_attempt_that_is_told_to_stop_counts_until_it_has(bench: Bench, cause: str, why: str) -> None:
    job = bench.submit(queue="a", cpu=4)
    bench.later(1)
    bench.requeue(job, cause)
    bench.later(0.25)
    stopping = bench.used()["a"]
    bench.report(job, "succeeded")  # whatever it says of itself

    for then in (stopping, bench.used()["a"]):  # what is good is of the next attempt, if there is one by now
        assert {name: value for name, value in then.items() if name not in ("all", "good")} == {why: (1, 5, 0, 0)}


@pytest.mark.parametrize("result, part", [("succeeded", "good"), ("failed", "failed")])
def test_an_attempt_that_ends_by_itself_is_what_its_agent_says(bench: Bench, result: str, part: str) -> None:
    job = bench.submit(queue="a", cpu=4)
    bench.later(2)
    bench.report(job, result)

    assert bench.used() == {"a": {"all": (1, 8, 0, 0), part: (1, 8, 0, 0)}}


def test_a_job_that_failed_for_good_is_not_good_whatever_it_says_of_it(bench: Bench) -> None:
    job = bench.submit(queue="a", cpu=4)
    bench.later(1)
    bench.fail(job, "time limit")
    bench.later(1)
    bench.report(job, "succeeded")

    assert bench.used() == {"a": {"all": (1, 8, 0, 0), "failed": (1, 8, 0, 0)}}


def test_who_is_cancelled_is_told_apart_from_what_the_scheduler_threw_away(bench: Bench) -> None:
    job = bench.submit(queue="a", cpu=4)
    bench.later(1)
    bench.cancel(job)
    bench.report(job, "failed")

    assert bench.used() == {"a": {"all": (1, 4, 0, 0), "cancelled": (1, 4, 0, 0)}}


def test_a_higher_class_costs_those_who_give_way_what_they_had(bench: Bench) -> None:
    low = [bench.submit(queue="a", cpu=CORES) for _ in range(2)]
    bench.later(1.5)
    bench.submit(queue="b", cpu=CORES, priorityClass="high")
    evicted = [job for job in low if bench.service.store.job(job).state == "queued"]  # type: ignore[union-attr]
    (victim,) = evicted
    bench.report(victim, "failed")  # it was told to stop, and did
    bench.later(1)

    assert bench.used() == {
        "a": {"all": (2, 6 + 10, 0, 0), "good": (1, 10, 0, 0), "preempted": (1, 6, 0, 0)},
        "b": {"all": (1, 4, 0, 0), "good": (1, 4, 0, 0)},
    }


def test_an_elastic_job_counts_at_each_width_and_goes_on_when_tasks_of_it_give_way(bench: Bench) -> None:
    job = bench.submit(queue="a", groups=[{"name": "w", "min": 1, "initial": 4, "max": 4, "cpu": 2}], lifetime="0s")
    bench.later(1)  # 4 tasks on 8 cores
    bench.submit(queue="b", cpu=CORES, lifetime="1h")
    bench.later(1)  # 2 tasks on 4 cores
    (lease,) = bench.service.store.leases_of(job)
    bench.report(job, "succeeded")

    assert [width[1] for width in lease.spec["widths"]] == [8000, 4000]
    assert lease.reason == ""  # why it is to stop: it is not
    assert bench.used()["a"] == {"all": (1, 12, 0, 0), "good": (1, 12, 0, 0)}
    assert bench.used(hours=1.5)["a"] == {"all": (1, 8, 0, 0), "good": (1, 8, 0, 0)}


# --- metrics -------------------------------------------------------------------------------------


def test_metrics_have_the_sums_of_utilisation_and_goodput(bench: Bench) -> None:
    low = [bench.submit(queue="a", cpu=CORES, gpu=1) for _ in range(2)]
    bench.later(1.5)
    bench.submit(queue="b", cpu=CORES, priorityClass="high")
    (victim,) = [job for job in low if bench.service.store.job(job).state == "queued"]  # type: ignore[union-attr]
    before = bench.metric("thrown_away")
    bench.report(victim, "failed")
    bench.later(1)

    assert before == {}  # it is counted at the end of the attempt
    assert bench.metric("capacity") == {"": 2.5 * 2 * CORES}
    assert bench.metric("held") == {"": 2.5 * 2 * CORES}
    assert bench.metric("thrown_away") == {"preempted": 1.5 * CORES}
    assert bench.metric("capacity", GPU) == {"": 2.5 * 4}
    assert bench.metric("held", GPU) == {"": 2.5 + 1.5}
    assert bench.metric("thrown_away", GPU) == {"preempted": 1.5}


def test_an_attempt_that_an_earlier_server_counted_as_held_is_thrown_away_as_a_whole(bench: Bench) -> None:
    job = bench.submit(queue="a", cpu=CORES)
    bench.later(2)
    held = bench.metric("held")
    bench.restart()
    bench.later(1)
    bench.cancel(job)
    bench.report(job, "failed")

    assert (held, bench.metric("held")) == ({"": 2 * CORES}, {"": 1 * CORES})
    assert bench.metric("thrown_away") == {"cancelled": 3 * CORES}


def test_the_sums_are_there_from_the_beginning(bench: Bench) -> None:
    lines = exposition(bench.service).splitlines()

    for name in ("capacity", "held", "thrown_away"):
        assert f"# TYPE muster_{name}_seconds_total counter" in lines
    assert "# TYPE muster_running_jobs gauge" in lines
    lab = 'cluster="lab",resource="cpu"'
    assert f"muster_held_seconds_total{{{lab}}} 0.0" in lines
    for why in WASTED:
        assert f'muster_thrown_away_seconds_total{{{lab},why="{why}"}} 0.0' in lines


# --- widths --------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, max_size=3 * MOST_WIDTHS)


@given(STEPS, st.integers(0, 60))
def test_what_was_held_is_the_sum_of_its_parts(steps: list[tuple[int, int]], rest: int) -> None:
    now_ms, cpu, held = 1000, 5, 0
    widths = widths_at_start(Resources.of({"cpu": cpu}), now_ms)
    for span_ms, wanted in steps:
        held, now_ms, cpu = held + cpu * span_ms, now_ms + span_ms, wanted
        widths = widened(widths, Resources.of({"cpu": cpu}), now_ms)
    until_ms, held = now_ms + rest, held + cpu * rest

    assert len(widths) <= MOST_WIDTHS
    assert held_between(widths, 0, until_ms)[0] == pytest.approx(held)
    middle_ms = (1000 + until_ms) // 2
    parts = held_between(widths, 0, middle_ms)[0] + held_between(widths, middle_ms, until_ms)[0]
    assert parts == pytest.approx(held)
    if len(steps) < MOST_WIDTHS:
        assert held_between(widths, 0, until_ms)[0] == held


# --- a real server -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("usage"), "", "--keep", "2d") as running:
        for queue in ("a", "b", "c"):
            running.queue(queue)
        running.agent(nodes="1xcpu=8,memory=32Gi,gpu=2")
        yield running


def test_a_report_says_what_the_times_of_jobs_say(site: Site) -> None:
    jobs = site.submit(*({"queue": "a", "cpu": 2, "memory": "3Gi", "gpu": 1} for _ in range(5)))
    seconds = sum(job["ended"] - job["started"] for job in site.wait(jobs))
    (job,) = site.submit({"queue": "b", "cpu": 8, "command": ["sleep", "600"]})
    (begun,) = site.wait([job], "running")
    site.ask("POST", f"/jobs/{job}/preempt")
    site.wait_until(lambda: site.job(job)["attempt"] == 2 and site.job(job)["state"] == "running")
    site.wait_until(lambda: [it["state"] for it in site.job(job)["leases"] if it["attempt"] == 1] in ([], ["ended"]))

    report, again = site.ask("GET", "/usage?by=queue&since=1d"), site.job(job)["started"]
    site.ask("POST", "/jobs/cancel", {"jobs": [job]})

    first, second = report["lines"]
    assert report["from"] == report["since"] == pytest.approx(report["until"] - 86_400, abs=0.01)
    assert (first["name"], first["attempts"], second["name"], second["attempts"]) == ("a", 5, "b", 2)
    for name, each in (("coreHours", 2), ("gibHours", 3), ("gpuHours", 1)):
        assert first[name] == pytest.approx(each * seconds / 3600, abs=2e-6)
    assert first["preempted"] == {"attempts": 0, "coreHours": 0, "gibHours": 0, "gpuHours": 0}
    held = 8 * (report["until"] - begun["started"]) / 3600  # two attempts, the second as soon as the first was to stop
    assert held - 2e-6 <= second["coreHours"]
    assert second["preempted"]["attempts"] == 1
    assert 8 * (again - begun["started"]) / 3600 - 2e-6 <= second["preempted"]["coreHours"] <= second["coreHours"]
    running = 8 * (report["until"] - again) / 3600
    assert second["coreHours"] - second["preempted"]["coreHours"] == pytest.approx(running, abs=4e-6)
    assert site.ask("GET", "/usage?by=user")["lines"][0]["attempts"] == 7


def test_a_report_goes_back_as_far_as_what_is_over_is_kept(site: Site) -> None:
    report = site.ask("GET", "/usage?since=30d")

    assert report["until"] - report["since"] == pytest.approx(30 * 86_400, abs=0.01)
    assert report["until"] - report["from"] == pytest.approx(2 * 86_400, abs=0.01)


def test_who_may_view_a_queue_sees_what_it_had_and_nobody_else_what_users_had(site: Site) -> None:
    site.wait(site.submit({"queue": "c", "cpu": 1, "user": "eve"}, {"queue": "a", "cpu": 1}))
    with Client(site.url, token=site.token) as admin:
        token = admin.make_token("ana", queues={"c": ["view"]}).token
        assert {line.name for line in admin.usage(since="1h").lines} >= {"a", "c"}
        assert "eve" in {line.name for line in admin.usage(by="user").lines}
    headers = {"Authorization": f"Bearer {token}"}

    assert [line["name"] for line in site.ask("GET", "/usage", headers=headers)["lines"]] == ["c"]
    refused = site.ask("GET", "/usage?by=user", status=403, headers=headers)
    assert refused["error"]["message"] == "only an admin may do that, and ana is none"


@pytest.mark.parametrize(
    "asked, field, allowed",
    [
        pytest.param("by=cluster", "by", "'queue' or 'user'", id="whose must be known"),
        pytest.param("since=yesterday", "since", "such as 30s, 10m, 2h, 1d", id="since when is a duration"),
        pytest.param("since=0s", "since", "such as 30s, 10m, 2h, 1d", id="of more than nothing"),
        pytest.param("since=-1d", "since", "such as 30s, 10m, 2h, 1d", id="into the past"),
        pytest.param("since=200000d", "since", "up to 100 years", id="within reason"),
        pytest.param("queue=a", "queue", "one of by, since", id="and nothing else is asked"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(site: Site, asked: str, field: str, allowed: str) -> None:
    (problem,) = site.ask("GET", f"/usage?{asked}", status=422)["error"]["problems"]

    assert problem["field"] == field
    assert allowed in problem["allowed"]
