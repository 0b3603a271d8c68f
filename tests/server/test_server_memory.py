"""A restart changes no decision: a world found again in the store goes on as the one that never stopped."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.agent.protocol import Report
from muster.model import events as ev
from muster.model.budgets import Budget
from muster.model.fleet import Cluster
from muster.model.jobs import Job, Running
from muster.model.nodes import Node
from muster.model.policy import FairBy, Policy
from muster.model.pools import DEFAULT_POOL, Pool
from muster.model.queues import Queue
from muster.model.resources import MICRO, Resources, parse_amount
from muster.server.access import Who
from muster.server.finding import cluster_thing, node_thing, pool_of, pool_thing, queue_of, queue_thing
from muster.server.news import Heard, News
from muster.server.service import Limits, Service
from muster.state import lining
from muster.store.store import Store

ADMIN = Who(name="admin", is_admin=True)
NODES = 3
BEGAN_MS = 1_800_000_000_000

POLICY = Policy(half_time_ms=20_000, unknown_end_ms=30_000, protected_ms=5_000, fair_by=FairBy.FLOW, short_first=500)


class Server:
    """A service whose turns are taken one by one, at moments of ours."""

    def __init__(self, database: Path, now_ms: int, policy: Policy = POLICY) -> None:
        self.now_ms = now_ms
        self.service = Service(Store.open(f"sqlite:///{database}"), lambda: self.now_ms, policy, Limits())

    def furnish(self) -> None:
        """A cluster with a few nodes, and two queues of which one has twice the weight."""
        cluster, queues = Cluster(name="lab"), [Queue(name="a"), Queue(name="b", weight=2 * MICRO)]
        amounts = Resources.of({"cpu": parse_amount("cpu", "4"), "pods": 110})
        nodes = [Node(name=f"n{number}", cluster="lab", allocatable=amounts) for number in range(NODES)]
        events = [ev.ClusterSet(cluster=cluster), *(ev.NodeAdded(node=node) for node in nodes)]
        things = [cluster_thing(cluster), *map(node_thing, nodes), *map(queue_thing, queues)]
        self.turn(News(events=[*events, *(ev.QueueSet(queue=queue) for queue in queues)], things=things))

    def turn(self, *news: News) -> None:
        turns = self.service.turns
        waiting, turns._news = turns._news, []
        turns.take([*waiting, *news])
        turns.settle()

    def do(self, number: int, step: tuple[Any, ...]) -> None:
        """One step of a story, and a turn after it."""
        kind, *said = step
        self.now_ms += 1  # ids go by time: so they are the same in two worlds
        match kind:
            case "submit":
                jobs = [{"name": f"j{number}-{place}", **job} for place, job in enumerate(said[0])]
                self.service.submit({"jobs": jobs}, ADMIN)
                self.turn()
            case "later":
                self.now_ms += said[0]
                self.turn()
            case "end":
                self.turn(*self._ends(*said))
            case "cancel":
                self.turn(News(events=[ev.JobCancelled(job=name) for name in self._one(said[0])]))
            case "hold" | "release":
                changes = {"held_by": "ana" if kind == "hold" else ""}
                waiting = sorted(self.service.world.state.waiting())
                names = waiting[said[0] % len(waiting) :][:1] if waiting else []
                self.turn(News(events=[ev.JobChanged(job=name, changes=changes) for name in names]))
            case "tune":
                changes = {"level": said[1], "freezing_ms": said[2]}
                self.turn(News(events=[ev.JobChanged(job=name, changes=changes) for name in self._one(said[0])]))
            case "budget":
                self.turn(News(events=[self._budget(name, said[1]) for name in self._one(said[0])]))
            case "policy":
                self._set_policy(said[0])
            case "remake":
                self._remake(said[0])

    def _one(self, number: int) -> list[str]:
        """One of the jobs that are not over, if there is any."""
        state = self.service.world.state
        known = sorted({*state.waiting(), *state.running})
        return known[number % len(known) :][:1] if known else []

    def _budget(self, name: str, least: int | None) -> ev.Event:
        job = self.service.world.state.find(name)
        assert job is not None
        group = job.profile.groups[0].name
        if least is None:
            return ev.BudgetGone(job=name, group=group)
        return ev.BudgetSet(budget=Budget(job=name, group=group, min_available=least))

    def _set_policy(self, said: dict[str, Any]) -> None:
        """As an operator does: who waits for the turn that writes it down."""
        turns = self.service.turns
        operator = Thread(target=self.service.set_policy, args=(ADMIN, said))
        operator.start()
        while not turns._news:
            operator.join(0.001)
        self.turn()
        operator.join()
        self.turn()

    def _remake(self, name: str) -> None:
        """A queue goes, if it can, and comes back with nothing that it was."""
        if self.service.world.state.jobs_in(name):
            return
        self.turn(News(events=[ev.QueueDeleted(queue=name)], gone=[("queue", name)]))
        queue = Queue(name=name)
        self.turn(News(events=[ev.QueueSet(queue=queue)], things=[queue_thing(queue)]))

    def running(self) -> list[Running]:
        """The attempts that run."""
        return list(self.service.world.state.running.values())

    def _ends(self, which: int, result: str) -> Iterator[News]:
        running = self.service.world.state.running
        if running:
            run = running[sorted(running)[which % len(running)]]
            report = Report(job=run.job.id, attempt=run.attempt, stage="ended", result=result)  # type: ignore[arg-type]
            yield News(heard=Heard(cluster="lab", reports=[report]))

    def answers(self) -> None:
        """The agent of the cluster calls in, a moment later: nobody starts again within a millisecond."""
        self.now_ms += 1
        self.turn(News(events=[ev.ClusterSilent(cluster="lab", silent=False)]))

    def looks(self) -> dict[str, Any]:
        """All that decisions rest on."""
        state = self.service.world.state
        return {
            "running": {name: (run.cluster, run.tasks, run.attempt) for name, run in state.running.items()},
            "since": {name: (run.started_ms, run.protected_until_ms) for name, run in state.running.items()},
            "owed": {name: (run.charge, run.overtook, run.preempted_by) for name, run in state.running.items()},
            "served": {name: run.serving for name, run in state.running.items()},
            "virtual": {**state.elastic.kept, **state.elastic.floors},
            "pending": {name: (it.attempt, it.line, it.reservation) for name, it in state.pending.items()},
            "waiting": sorted(state.waiting()),
            "accounts": {name: (it.account, it.fixed, it.habit) for name, it in self._queues()},
            "stands": {name: (it.stands_since_ms, it.last_start_ms) for name, it in self._queues()},
            "said": {name: (it.level, it.freezing_ms, it.held_by) for name, it in self._alive()},
            "budgets": sorted(state.protection.budgets(), key=str),
            "policy": state.policy,
            "noted": sorted(self.service.notes.jobs()),
            "holds": {name: (it.started, it.demand, it.charged) for name, it in self._queues()},
        }

    def _alive(self) -> list[tuple[str, Job]]:
        state = self.service.world.state
        return [(name, job) for name in (*state.waiting(), *state.running) if (job := state.find(name)) is not None]

    def _queues(self) -> list[tuple[str, Any]]:
        return [(it.queue.name, it) for it in self.service.world.state.freeze(self.now_ms).queues]

    def copy_of_store(self, target: Path) -> Path:
        self.service.store.backup(target)
        return target

    def close(self) -> None:
        self.service.writer.close()
        self.service.store.close()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database of a server that has not done anything yet."""
    database = tmp_path_factory.mktemp("furnished") / "muster.db"
    server = Server(database, BEGAN_MS)
    server.furnish()
    copied = server.copy_of_store(database.with_name("copy.db"))
    server.close()
    return copied


@contextmanager
def started(database: Path, now_ms: int, policy: Policy = POLICY) -> Iterator[Server]:
    server = Server(database, now_ms, policy)
    try:
        server.answers()
        yield server
    finally:
        server.close()


SHAPES = st.one_of(
    st.builds(lambda cores: {"cpu": cores}, st.integers(1, 4)),
    st.builds(
        lambda least, more, cores: {"groups": [{"name": "w", "min": least, "max": least + more, "cpu": cores}]},
        st.integers(1, 2),
        st.integers(0, 2),
        st.integers(1, 3),
    ),
)
REST = st.fixed_dictionaries(
    {"queue": st.sampled_from("ab")},
    optional={
        "priority": st.integers(0, 2),
        "priorityClass": st.sampled_from(["default", "high"]),
        "lifetime": st.sampled_from(["0s", "10s", "1m"]),
        "expectedRuntime": st.sampled_from(["10s", "1m"]),
        "retries": st.sampled_from([1, {"failed": 1, "lost": 1, "preempted": 1}]),
    },
)
JOBS = st.builds(lambda shape, rest: shape | rest, SHAPES, REST)

POLICIES: list[dict[str, Any]] = [
    {"agingAfter": "10s"},
    {"overShare": "off", "agingAfter": None},
    {"overShare": 1.5},
    {"calendar": [{"cluster": "lab", "from": "00:00", "to": "24:00", "withhold": {"cpu": 3}}]},
    {"calendar": None, "overShare": None},
]

STEPS = st.one_of(
    st.tuples(st.just("submit"), st.lists(JOBS, min_size=1, max_size=6)),
    st.tuples(st.just("later"), st.sampled_from([500, 5_000, 15_000, 70_000])),
    st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(["succeeded", "failed", "lost"])),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(st.sampled_from(["hold", "release"]), st.integers(0, 9)),
    st.tuples(st.just("tune"), st.integers(0, 9), st.sampled_from([100, 10_000]), st.sampled_from([0, 7_000])),
    st.tuples(st.just("budget"), st.integers(0, 9), st.sampled_from([None, 0, 1])),
    st.tuples(st.just("policy"), st.sampled_from(POLICIES)),
    st.tuples(st.just("remake"), st.sampled_from("ab")),
)


@contextmanager
def lined_up_by_columns(fewest: int) -> Iterator[None]:
    """So many who wait, or more, are put in line by columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lining, "WORTH_COLUMNS", fewest)
        yield


@settings(max_examples=30)
@given(
    before=st.lists(STEPS, min_size=2, max_size=8),
    after=st.lists(STEPS, min_size=1, max_size=6),
    over_share=st.booleans(),
    fewest=st.sampled_from([1, lining.WORTH_COLUMNS]),
)
def test_property_a_world_found_again_decides_as_the_one_that_went_on(
    before: list[Any],
    after: list[Any],
    over_share: bool,
    fewest: int,
    furnished: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Also when those who wait are put in line by columns, however few."""
    folder = tmp_path_factory.mktemp("story")
    policy = POLICY if over_share else Policy(half_time_ms=20_000, unknown_end_ms=30_000, over_share=None)
    shutil.copy(furnished, folder / "one.db")
    with started(folder / "one.db", BEGAN_MS, policy) as one:
        for number, step in enumerate(before):
            one.do(number, step)
        one.copy_of_store(folder / "two.db")
        with lined_up_by_columns(fewest), started(folder / "two.db", one.now_ms, policy) as two:
            one.answers()
            assert two.looks() == one.looks()
            for number, step in enumerate(after, len(before)):
                one.do(number, step)
                two.do(number, step)
                assert two.looks() == one.looks()


def test_what_a_queue_used_before_a_restart_still_counts(furnished: Path, tmp_path: Path) -> None:
    """Queue a has used the whole fleet until now; so b goes first, restarted or not."""
    shutil.copy(furnished, tmp_path / "one.db")
    with started(tmp_path / "one.db", BEGAN_MS) as one:
        one.do(0, ("submit", [{"queue": "a", "cpu": 4, "lifetime": "0s"}] * NODES))
        one.do(1, ("later", 15_000))
        for number in range(NODES):
            one.do(2 + number, ("end", 0, "succeeded"))
        used = {name: it.account.flow for name, it in one._queues()}
        one.copy_of_store(tmp_path / "two.db")
    with started(tmp_path / "two.db", one.now_ms) as two:
        assert {name: it.account.flow for name, it in two._queues()} == used
        assert used["a"] > 0 == used["b"]
        jobs = [{"queue": queue, "cpu": 4, "lifetime": "0s"} for queue in "aaabbb"]
        two.do(9, ("submit", jobs))
        queues = [run.job.queue for run in two.service.world.state.running.values()]
        assert sorted(queues) == ["b", "b", "b"]


def test_what_a_queue_says_for_a_job_at_its_submission_stays_with_the_job(furnished: Path, tmp_path: Path) -> None:
    """Also after the queue says something else, and after a restart."""
    shutil.copy(furnished, tmp_path / "one.db")
    timed = Queue(name="a", default_time_limit_ms=7_200_000, default_expected_ms=600_000)
    with started(tmp_path / "one.db", BEGAN_MS) as one:
        one.turn(News(events=[ev.QueueSet(queue=timed)], things=[queue_thing(timed)]))
        one.do(0, ("submit", [{"queue": "a", "cpu": 1}, {"queue": "a", "cpu": 1, "timeLimit": "1m"}]))
        later = Queue(name="a")
        one.turn(News(events=[ev.QueueSet(queue=later)], things=[queue_thing(later)]))
        one.copy_of_store(tmp_path / "two.db")
        known = {run.job.id: (run.job.expected_ms, run.job.time_limit_ms) for run in one.running()}
    assert sorted(known.values(), key=str) == [(600_000, 7_200_000), (None, 60_000)]
    with started(tmp_path / "two.db", one.now_ms) as two:
        assert {run.job.id: (run.job.expected_ms, run.job.time_limit_ms) for run in two.running()} == known


@pytest.mark.parametrize("name", [pytest.param("p", id="a pool"), pytest.param(DEFAULT_POOL, id="the default pool")])
def test_all_that_is_said_of_a_pool_is_found_again(name: str) -> None:
    pool = Pool(name=name, shares=False, preempts=False, borrows_from=(DEFAULT_POOL, "q"), keep={"cpu": 1500})

    assert pool_of(pool_thing(pool)) == pool


def test_all_that_is_said_of_a_queue_is_found_again() -> None:
    queue = Queue(
        name="a",
        weight=2 * MICRO,
        quota={"cpu": 1000},
        cordoned=True,
        excess_budget=90 * MICRO * 60_000,
        default_time_limit_ms=7_200_001,
        default_expected_ms=1,
        owners=("ana", "bo"),
        labels={"team": "vision"},
    )

    assert queue_of(queue_thing(queue)) == queue


FULL = {"queue": "a", "cpu": 4, "lifetime": "1h", "expectedRuntime": "1m"}

STORIES = [
    pytest.param(
        [("submit", [FULL] * NODES), ("submit", [{**FULL, "queue": "b"}])],
        "pending",
        id="room that was promised for good stays promised",
    ),
    pytest.param(
        [
            ("submit", [{"queue": "a", "cpu": 4, "lifetime": "0s"}] * NODES),
            ("submit", [{"queue": "a", "cpu": 4, "priorityClass": "high", "lifetime": "0s"}]),
            ("later", 1_000),
            ("end", NODES - 1, "succeeded"),
        ],
        "owed",
        id="who gave way is not taken from by the same job again",
    ),
    pytest.param(
        [
            ("submit", [{"queue": "a", "groups": [{"name": "w", "min": 1, "max": 6, "cpu": 2}]}]),
            ("later", 15_000),
            ("submit", [{"queue": "b", "cpu": 4, "lifetime": "1m"}]),
        ],
        "served",
        id="what an elastic job was given is not forgotten",
    ),
    pytest.param(
        [
            ("submit", [{"queue": "a", "groups": [{"name": "w", "min": 2, "max": 6, "cpu": 2}]}]),
            ("later", 15_000),
            ("submit", [{"queue": "b", "cpu": 4, "priorityClass": "high"}] * NODES),
            ("later", 1_000),
        ],
        "virtual",
        id="nor what one was given that gave way",
    ),
]


@pytest.mark.parametrize("story, what", STORIES)
def test_a_restart_at_any_moment_forgets_nothing(story: list[Any], what: str, furnished: Path, tmp_path: Path) -> None:
    policy = Policy(over_share=None)
    shutil.copy(furnished, tmp_path / "one.db")
    with started(tmp_path / "one.db", BEGAN_MS, policy) as one:
        for number, step in enumerate(story):
            one.do(number, step)
            copied = one.copy_of_store(tmp_path / f"{number}.db")
            with started(copied, one.now_ms, policy) as two:
                one.answers()
                assert two.looks() == one.looks()
        memory = one.looks()[what]
        assert any(any(it) if isinstance(it, tuple) else it for it in memory.values()), "there was nothing to forget"
