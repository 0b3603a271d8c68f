"""Both clients against a real server with a simulated agent: the same questions, the same answers."""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cutting import Cutting
from serving import Site

import muster
from muster.sdk.errors import Expired
from muster.sdk.retrying import Patience

SHORT = {"queue": "a", "cpu": 1, "command": ["sleep", "0"]}
LONG = {"queue": "a", "cpu": 1, "command": ["sleep", "600"]}
HUGE = {"queue": "a", "cpu": 1000, "command": ["true"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        running.queue("a")
        running.agent()
        yield running


class InALoop:
    """An AsyncClient that is asked like a Client."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = muster.AsyncClient(*args, **more)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def ask(*args: Any, **more: Any) -> Any:
            asked = method(*args, **more)
            if inspect.isasyncgen(asked):
                return self._one_by_one(asked)
            return self._loop.run_until_complete(asked)

        return ask

    def _one_by_one(self, asked: Any) -> Iterator[Any]:
        try:
            while True:
                yield self._loop.run_until_complete(anext(asked))
        except StopAsyncIteration:
            return
        finally:
            self._loop.run_until_complete(asked.aclose())

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()


@pytest.fixture(params=[pytest.param(muster.Client, id="Client"), pytest.param(InALoop, id="AsyncClient")])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(site: Site, kind: Any) -> Iterator[Any]:
    asked = kind(site.url, token=site.token)
    yield asked
    asked.close()


def test_a_job_is_submitted_waited_for_and_looked_at(client: Any) -> None:
    first, second = client.submit([{**SHORT, "name": "first", "jobSet": "pair"}, {**SHORT, "name": "second"}])
    assert (first.name, second.name) == ("first", "second")

    over = client.wait([first.id, second.id], timeout_s=60)

    assert [(job.id, job.state, job.cluster) for job in over] == [
        (first.id, "succeeded", "lab"),
        (second.id, "succeeded", "lab"),
    ]
    assert over[0].is_over
    assert over[0].spec["command"] == ["sleep", "0"]
    assert client.job(first.id).job_set == "pair"
    assert client.why(first.id).text.startswith(first.id)


def test_jobs_are_listed_page_by_page(client: Any) -> None:
    ids = [job.id for job in client.submit({**SHORT, "name": "page", "jobSet": "pages", "array": "0-4"})]
    page = client.jobs(job_set="pages", limit=2)

    assert len(page.jobs) == 2
    rest = client.jobs(job_set="pages", limit=1000, after=page.next)
    assert {*ids} <= {job.id for job in (*page.jobs, *rest.jobs)}
    assert {*ids} <= {job.id for job in client.iter_jobs(job_set="pages", text="page")}
    assert client.jobs(queue="a", state="cancelled", user="nobody").jobs == []


def test_a_waiting_job_is_explained_changed_held_and_cancelled(client: Any) -> None:
    (submitted,) = client.submit({**HUGE, "name": "huge", "jobSet": "waiting"})
    job = submitted.id

    assert client.reprioritise(job, priority=7).priority == 7  # answered after a turn, so the job was looked at by then
    why = client.why(job)
    assert (why.reason, why.job) == ("NEVER_FITS", job)
    assert client.hold(job).state == client.release(job).state == "queued"
    assert client.cancel([job]) == [job]
    assert client.cancel(job) == []
    assert client.cancel(job_set="waiting", queue="a") == []
    assert client.job(job).state == "cancelled"
    with pytest.raises(muster.ApiError, match="cancelled") as caught:
        client.hold(job)
    assert caught.value.status == 409


def test_many_jobs_are_held_released_changed_and_cancelled_at_once(client: Any) -> None:
    client.put_queue("many")
    ids = {job.id for job in client.submit({**HUGE, "queue": "many", "name": "m", "jobSet": "m", "array": "0-2"})}
    other = client.submit({**HUGE, "queue": "many", "name": "other"})[0].id

    assert set(client.hold_all(job_set="m", queue="many")) == ids
    assert set(client.release_all(queue="many", everything=True)) == ids
    assert set(client.reprioritise_all(job_set="m", states=["queued"], priority=3)) == ids
    assert client.reprioritise_all([other], level="Offline") == [other]
    changed = client.reprioritise(other, freezing_window=90.0)
    assert (changed.id, client.job(other).level, client.job(other).freezing_window) == (other, "Offline", 90.0)
    assert client.preempt_all(queue="many", everything=True) == []
    assert set(client.cancel(job_set="m", states=["queued"])) == ids
    with pytest.raises(muster.ApiError, match="1 jobs that are not over") as caught:
        client.remove_queue("many")
    assert caught.value.status == 409
    client.remove_queue("many", cancel=True)
    assert client.job(other).state == "cancelled"
    with pytest.raises(muster.NotFound):
        client.queue("many")


def test_budgets_and_the_policy_are_set_shown_and_taken_back(client: Any) -> None:
    job = client.submit({**HUGE, "name": "guarded"})[0].id

    assert client.put_budget(job, min_available=1).group == "main"
    assert [(it.job, it.min_available) for it in client.budgets()] == [(job, 1)]
    client.remove_budget(job)
    assert client.budgets() == []
    client.cancel(job)
    window = {"pool": "default", "from": "08:00", "to": "20:00", "withhold": {"cpu": 1}}
    policy = client.change_policy(over_share=2, aging_after="1h", calendar=[window])
    assert (policy.over_share, policy.aging_after, policy.calendar[0]["pool"]) == (2.0, 3600.0, "default")
    assert client.change_policy(over_share=None, calendar=None).set == ["agingAfter"]
    assert client.change_policy(aging_after=None) == client.policy()
    assert client.policy().set == []
    with pytest.raises(muster.ApiError, match="overShare"):
        client.change_policy(over_share=-1)


def test_what_would_happen_is_told_and_does_not(client: Any) -> None:
    answer = client.whatif({"name": "mine", "queue": "a", "cpu": 1}, events=[{"cordonQueue": "a"}])

    assert answer.job("mine").with_it.starts == []
    assert answer.job("mine").with_it.reason == "QUEUE_CORDONED"
    assert client.whatif({"name": "mine", "queue": "a", "cpu": 1}).job("mine").with_it.starts == [
        pytest.approx(time.time(), abs=60)
    ]
    assert client.jobs(text="mine").jobs == []


def test_a_running_job_is_preempted(client: Any) -> None:
    (submitted,) = client.submit({**LONG, "name": "long"})
    next(event for event in client.events(after=0, job=submitted.id) if event.event == "started")

    client.preempt(submitted.id)

    kinds = (event.event for event in client.events(after=0, job=submitted.id))
    assert next(kind for kind in kinds if kind in ("requeued", "preempted"))
    assert client.cancel([submitted.id]) == [submitted.id]


def test_queues_users_and_pools_are_made_and_changed(client: Any) -> None:
    made = client.put_queue("b", weight=2.5, quota={"cpu": 10, "gpu": "2"}, cordoned=True)

    assert (made.name, made.weight, made.cordoned, made.quota["cpu"]) == ("b", 2.5, True, "10")
    assert client.queue("b") == made
    assert {queue.name for queue in client.queues()} >= {"a", "b"}
    times = client.put_queue("timed", default_time_limit=7200, default_expected_runtime=0.5, excess_budget=90)
    assert (times.default_time_limit, times.default_expected_runtime, times.excess_budget) == (7200, 0.5, 90)
    assert client.queue("timed") == times
    assert client.put_user("ana", quota={"cpu": 4}).quota == {"cpu": "4"}
    assert "ana" in [user.name for user in client.users()]
    pool = client.put_pool("p", node_selector={"team": "p"}, disable_sharing=True)
    assert (pool.node_selector, pool.disable_sharing, pool.nodes) == ({"team": "p"}, True, 0)
    assert client.pools() == [pool]
    client.remove_pool("p")
    assert client.pools() == []


def test_machines_are_listed_and_cordoned(client: Any) -> None:
    (cluster,) = client.clusters()
    assert (cluster.name, cluster.nodes, cluster.silent) == ("lab", 4, False)

    first = client.nodes(cluster="lab")[0]
    assert first.allocatable["cpu"] == "8"
    assert client.cordon(first.name).cordoned
    drained = client.drain(first.name, grace_s=60)
    assert drained.drain is not None
    assert drained.drain.leaves == pytest.approx(drained.drain.since + 60)
    assert drained.is_drained  # nothing ran there
    assert not client.uncordon(first.name).cordoned
    assert client.nodes(cluster="elsewhere") == []


def test_operators_see_how_it_is_and_who_did_what(client: Any) -> None:
    status = client.change_settings(paused=True, preemption="dry-run")
    assert (status.paused, status.preemption) == (True, "dry-run")
    status = client.change_settings(paused=False, preemption="on")

    assert client.status().version == status.version == muster.__version__
    assert not status.store_down
    (turn,) = client.turns(limit=1)
    assert client.turn(turn.number).took == turn.took
    assert client.audit(limit=1)[0]["who"] == "admin"
    report = client.usage(by="user", since="1d")
    assert (report.by, report.until - report.from_) == ("user", pytest.approx(86_400, abs=0.01))
    assert all(line.core_hours >= line.preempted.core_hours >= 0 for line in report.lines)


def test_a_token_lets_in_for_what_it_says_and_no_longer_than_it_is_there(client: Any, kind: Any, site: Site) -> None:
    made = client.make_token("ana", queues={"a": ["view"]})
    assert made.id in [token.id for token in client.tokens()]

    ana = kind(site.url, token=made.token)
    assert [queue.name for queue in ana.queues()] == ["a"]
    with pytest.raises(muster.ApiError, match="ana may not submit"):
        ana.submit(SHORT)
    with pytest.raises(muster.Unauthorized, match="only an admin"):
        ana.tokens()
    client.remove_token(made.id)
    with pytest.raises(muster.Unauthorized, match="MUSTER_TOKEN") as caught:
        ana.queues()
    ana.close()

    assert caught.value.status == 401
    with pytest.raises(muster.NotFound):
        client.remove_token(made.id)


def test_bad_input_names_every_problem(client: Any) -> None:
    with pytest.raises(muster.ApiError) as caught:
        client.submit([{**SHORT, "cpu": -1}, {"queue": "nowhere", "cpu": 1}])

    assert caught.value.status == 422
    assert {problem.field for problem in caught.value.problems} == {"jobs[0].cpu", "jobs[1].queue"}
    assert "nowhere" in str(caught.value)


def test_what_is_not_there_is_said_so(client: Any) -> None:
    for ask in (client.job, client.why, client.queue, client.cordon, client.lose_cluster):
        with pytest.raises(muster.NotFound, match="there is no"):
            ask("nothing")


def test_events_come_in_order_each_once_and_end_where_nobody_follows(client: Any) -> None:
    (submitted,) = client.submit({**SHORT, "name": "told"})
    client.wait(submitted.id, timeout_s=60)

    events = list(client.events(after=0, job=submitted.id, follow=False))

    assert [event.event for event in events] == ["submitted", "started", "succeeded"]
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert list(client.events(after=events[1].id, job=submitted.id, follow=False)) == events[2:]
    assert list(client.events(after=0, job_set="none", follow=False)) == []


def test_a_submission_whose_answer_is_lost_is_made_once(client: Any, kind: Any, site: Site) -> None:
    with Cutting(site.url) as proxy:
        through = kind(proxy.url, token=site.token)
        proxy.cut_next()
        (submitted,) = through.submit({**SHORT, "name": "once", "jobSet": f"once-{kind.__name__}"})
        through.close()

    assert proxy.served == 2
    assert [job.id for job in client.iter_jobs(job_set=f"once-{kind.__name__}")] == [submitted.id]


def test_a_token_whose_answer_is_lost_is_not_made_again(client: Any, kind: Any, site: Site) -> None:
    with Cutting(site.url) as proxy:
        through = kind(proxy.url, token=site.token)
        proxy.cut_next()
        with pytest.raises(muster.ServerUnreachable):
            through.make_token(f"lost-{kind.__name__}")
        through.close()

    assert [token.name for token in client.tokens()].count(f"lost-{kind.__name__}") == 1


def test_a_stream_that_breaks_goes_on_where_it_was(client: Any, kind: Any, site: Site) -> None:
    with Cutting(site.url) as proxy:
        through = kind(proxy.url, token=site.token)
        stream = through.events(queue="a", after=client.status().last_event)
        (one,) = client.submit({**HUGE, "name": "one"})
        first = next(stream)
        proxy.cut_all()
        (two,) = client.submit({**HUGE, "name": "two"})
        second = next(stream)
        stream.close()
        through.close()

    assert [(event.event, event.job) for event in (first, second)] == [("submitted", one.id), ("submitted", two.id)]
    client.cancel([one.id, two.id])


def test_who_has_followed_for_long_is_as_patient_as_in_the_beginning(
    client: Any, kind: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    for module in ("client", "aclient"):
        monkeypatch.setattr(f"muster.sdk.{module}.Patience", partial(Patience, clock=lambda: now[0]))
    with Cutting(site.url) as proxy:
        through = kind(proxy.url, token=site.token)
        stream = through.events(queue="a", after=client.status().last_event)
        jobs = [client.submit({**HUGE, "name": "first"})[0].id]
        seen = [next(stream).job]
        now[0] += 3600.0
        jobs.append(client.submit({**HUGE, "name": "later"})[0].id)
        seen.append(next(stream).job)
        proxy.cut_all()
        jobs.append(client.submit({**HUGE, "name": "last"})[0].id)
        seen.append(next(stream).job)
        stream.close()
        through.close()

    assert seen == jobs
    client.cancel(jobs)


# --- a server that goes and comes ----------------------------------------------------------------


def test_who_follows_a_server_that_restarts_misses_nothing_and_sees_nothing_twice(tmp_path: Path) -> None:
    with Site(tmp_path) as site, muster.Client(site.url, token=site.token, patience_s=120) as client:
        client.put_queue("a")
        stream = client.events(after=0)
        (before,) = client.submit({**HUGE, "name": "before"})
        assert next(stream).job == before.id
        site.server.end(signal.SIGKILL)
        again = threading.Thread(target=site.start)
        again.start()

        (after,) = client.submit({**HUGE, "name": "after"})  # asked again until it is back

        again.join()
        assert next(event for event in stream if event.event == "submitted").job == after.id
        stream.close()  # type: ignore[attr-defined]


def test_a_full_queue_is_asked_again_until_there_is_room(tmp_path: Path) -> None:
    with Site(tmp_path, "", "--most-queued", "1") as site, muster.Client(site.url, token=site.token) as client:
        client.put_queue("a")
        (first,) = client.submit({**HUGE, "name": "first"})
        impatient = muster.Client(site.url, token=site.token, patience_s=0.5)
        with impatient, pytest.raises(muster.ApiError, match="1 is the most it takes") as caught:
            impatient.submit(HUGE)
        assert caught.value.status == 429

        room = threading.Timer(0.2, client.cancel, [[first.id]])
        room.start()
        (second,) = client.submit({**HUGE, "name": "second"})
        room.join()

        assert client.job(second.id).state == "queued"


def test_a_server_that_is_not_there_is_said_so_in_time() -> None:
    with muster.Client("http://127.0.0.1:1", token="x", patience_s=0.3) as client:
        with pytest.raises(muster.ServerUnreachable, match=r"http://127\.0\.0\.1:1 .*refused.*muster server"):
            client.queues()
        with pytest.raises(muster.ServerUnreachable):
            next(client.events())


@pytest.mark.parametrize("kind", [muster.Client, InALoop], ids=["Client", "AsyncClient"])
def test_a_cursor_that_is_no_longer_kept_is_told_apart_and_zero_begins_with_what_is(forgetful: Site, kind: Any) -> None:
    client = kind(forgetful.url, token=forgetful.token)

    with pytest.raises(Expired, match="events after 1 are no longer kept") as expired:
        list(client.events(after=1, follow=False))
    assert (expired.value.status, "after=0" in str(expired.value)) == (410, True)
    assert list(client.events(after=0, follow=False)) == []
    client.close()


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server that has forgotten the first events already."""
    with Site(tmp_path_factory.mktemp("forgetful"), "", "--keep", "0.2s") as running:
        running.queue("a")
        running.agent()
        running.submit({**SHORT, "name": "x"})
        with muster.Client(running.url, token=running.token) as client:
            events = partial(client.events, after=0, follow=False)  # they go after the jobs
            running.wait_until(lambda: not running.ask("GET", "/jobs")["jobs"] and not list(events()))
        yield running
