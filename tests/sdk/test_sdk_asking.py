"""What is asked, what is asked again, and what an answer that is bad news becomes."""

from __future__ import annotations

import inspect
from urllib.parse import unquote, urlsplit

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from muster.model.errors import InvalidValue
from muster.sdk import asking, operating
from muster.sdk.errors import ApiError, Expired, NotFound, ServerUnreachable, Unauthorized, error_of
from muster.sdk.polling import Polling
from muster.sdk.retrying import Patience
from muster.sdk.shapes import JobDetail


class Clock:
    """A clock that somebody moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.text(min_size=1))
def test_a_name_is_one_step_of_a_path_whatever_is_in_it(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return
    path = asking.job(name).path
    sent = httpx2.URL("http://server.example").join(path).raw_path.decode()

    steps = urlsplit(sent).path.split("/")
    assert (len(steps), unquote(steps[-1])) == (5, name)


@pytest.mark.parametrize(
    "ask, field",
    [
        pytest.param(lambda: asking.job(""), "job", id="a job without a name"),
        pytest.param(lambda: asking.submit([]), "jobs", id="a submission of nothing"),
        pytest.param(lambda: asking.submit({"cpu": float}), "body", id="a job that is no JSON"),
        pytest.param(lambda: asking.submit({}, key="a b\n"), "key", id="a key that no header can carry"),
        pytest.param(lambda: asking.submit({}, key=""), "key", id="a key of nothing"),
        pytest.param(lambda: operating.act("cancel", [], {}), "jobs", id="cancelling nothing"),
        pytest.param(
            lambda: operating.act("cancel", ["a"], {"job_set": "s"}), "jobs", id="cancelling jobs and a job set"
        ),
        pytest.param(lambda: asking.jobs(limit=0), "limit", id="a page of nothing"),
        pytest.param(lambda: asking.jobs(limit=1001), "limit", id="a page that is too long"),
        pytest.param(lambda: asking.jobs(state="done"), "state", id="a state that there is not"),
        pytest.param(lambda: operating.changes(), "priority", id="a change of nothing"),
        pytest.param(lambda: operating.act("hold", [], {"queue": "q"}), "jobs", id="a queue without saying all of it"),
        pytest.param(
            lambda: operating.act("hold", [], {"everything": True}), "everything", id="everything of no queue"
        ),
        pytest.param(
            lambda: operating.act("hold", [], {"job_set": "s", "states": ["over"]}),  # type: ignore[list-item]
            "states",
            id="a state in which nothing can be done",
        ),
        pytest.param(lambda: asking.drain("n", grace_s=-1), "grace_s", id="a grace below zero"),
        pytest.param(lambda: asking.whatif(), "jobs", id="a question about nothing"),
        pytest.param(lambda: asking.usage(by="cluster"), "by", id="a report of what nobody counts"),
    ],
)
def test_what_makes_no_sense_is_not_even_asked(ask, field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ask()
    assert caught.value.field == field


def test_a_submission_has_a_key_of_its_own_unless_it_is_given_one() -> None:
    one, two = asking.submit({"cpu": 1}), asking.submit([{"cpu": 1}])

    assert one.body == two.body == b'{"jobs":[{"cpu":1}]}'
    assert one.headers["Idempotency-Key"] != two.headers["Idempotency-Key"]
    assert asking.submit({"cpu": 1}, key="mine").headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize(
    "status, body, kind, said",
    [
        pytest.param(
            422,
            b'{"error": {"message": "m", "problems": [{"field": "a", "value": "1", "allowed": "2"}, {"field": "b"}]}}',
            ApiError,
            "a: 1 is not allowed: 2\nb: ",
            id="every problem, where there are several",
        ),
        pytest.param(401, b'{"error": {"message": "who?"}}', Unauthorized, "MUSTER_TOKEN", id="no token"),
        pytest.param(403, b'{"error": {"message": "no"}}', Unauthorized, "muster token make", id="too little a token"),
        pytest.param(404, b'{"error": {"message": "no"}}', NotFound, "muster jobs", id="nothing there"),
        pytest.param(410, b'{"error": {"message": "gone"}}', Expired, "after=0", id="no longer kept"),
        pytest.param(429, b'{"error": {"message": "full"}}', ApiError, "later", id="too much"),
        pytest.param(502, b"<html>\n bad\n gateway", ApiError, "not from a Muster server: <html> bad", id="a proxy's"),
        pytest.param(500, b"\xff\xfe", ApiError, "500", id="no text at all"),
        pytest.param(404, b'{"detail": "x"}', NotFound, "not from a Muster server", id="another API's"),
    ],
)
def test_bad_news_says_what_is_wrong_and_what_to_do(status: int, body: bytes, kind: type[ApiError], said: str) -> None:
    err = error_of(status, body)

    assert (type(err), err.status) == (kind, status)
    assert said in str(err)


def test_good_news_from_somebody_else_is_no_answer() -> None:
    with pytest.raises(ApiError, match="not a Muster server's"):
        asking.queues().answer(b"<html>hello</html>")


GET, MAKE = asking.queues(), asking.make_token("x")


@pytest.mark.parametrize(
    "ask, err, is_again",
    [
        pytest.param(GET, httpx2.ConnectError("refused"), True, id="nobody there"),
        pytest.param(GET, httpx2.ReadError("cut"), True, id="a lost answer to a question that does no harm"),
        pytest.param(MAKE, httpx2.ConnectError("refused"), True, id="nobody there to make a token"),
        pytest.param(MAKE, httpx2.ReadTimeout("slow"), False, id="a lost answer to what may have been done"),
    ],
)
def test_what_may_have_been_done_is_not_asked_again(ask, err: httpx2.TransportError, is_again: bool) -> None:
    patience = Patience("http://s", 10.0, Clock())

    if is_again:
        assert 0 < patience.after_trouble(ask, err) <= 0.1
        return
    with pytest.raises(ServerUnreachable, match="http://s cannot be reached: no answer in time"):
        patience.after_trouble(ask, err)


@pytest.mark.parametrize(
    "ask, status, header, least_s",
    [
        pytest.param(GET, 429, "2", 2.0, id="too busy, for two seconds"),
        pytest.param(MAKE, 503, None, 0.0, id="no store, nothing done"),
        pytest.param(GET, 502, "Sun, 06 Nov 1994 08:49:37 GMT", 0.0, id="a proxy without a server, and a date"),
        pytest.param(MAKE, 502, None, None, id="a proxy may have lost the answer"),
        pytest.param(GET, 500, None, None, id="a mistake stays one"),
        pytest.param(GET, 404, None, None, id="what is not there does not come"),
        pytest.param(GET, 429, "60", None, id="later than anyone wants to wait"),
    ],
)
def test_some_answers_are_asked_for_again(ask, status: int, header: str | None, least_s: float | None) -> None:
    pause_s = Patience("http://s", 10.0, Clock()).after_answer(ask, status, header)

    assert (pause_s is None) == (least_s is None)
    assert pause_s is None or least_s is None or least_s <= pause_s <= least_s + 0.1


def test_patience_ends_and_begins_anew_with_an_answer() -> None:
    clock = Clock()
    patience = Patience("http://s", 10.0, clock)
    pauses = []
    while (pause_s := patience.after_answer(GET, 503, None)) is not None:
        pauses.append(pause_s)
        clock.now += pause_s
    assert 9.0 <= clock.now <= 10.0 or sum(pauses) > 5
    assert len(pauses) < 15, "it waits longer each time"

    patience.renew()
    assert patience.after_answer(GET, 503, None) is not None


def job(name: str, state: str) -> JobDetail:
    return JobDetail(id=name, queue="q", state=state, submitted=0.0, spec={})  # type: ignore[arg-type]


def test_waiting_looks_at_one_job_at_a_time_and_less_often() -> None:
    polling = Polling(["a", "b"], None, Clock())

    pauses = [polling.heard(job("a", "running")) for _ in range(8)]
    assert pauses == sorted(pauses, key=lambda pause: pause or 0)
    assert (pauses[0], pauses[-1]) == (0.05, 1.0)
    assert (polling.heard(job("a", "failed")), polling.next()) == (None, "b")
    assert polling.heard(job("b", "queued")) == 0.05
    polling.heard(job("b", "succeeded"))
    assert (polling.next(), [each.id for each in polling.done]) == (None, ["a", "b"])


@pytest.mark.parametrize(
    "state, is_waited_for",
    [
        pytest.param("queued", True, id="one that is queued does not run"),
        pytest.param("pending", True, id="nor does one that was given a cluster"),
        pytest.param("running", False, id="one that runs"),
        pytest.param("succeeded", False, id="one that was faster than we looked"),
        pytest.param("failed", False, id="one that will not run any more"),
    ],
)
def test_waiting_for_a_job_to_run(state: str, is_waited_for: bool) -> None:
    polling = Polling("a", None, Clock(), until="running")

    pause_s = polling.heard(job("a", state))

    assert (pause_s is not None, polling.next() == "a") == (is_waited_for, is_waited_for)


def test_waiting_ends_when_it_takes_too_long() -> None:
    clock = Clock()
    polling = Polling("a", 5.0, clock)
    assert polling.heard(job("a", "queued")) == 0.05
    clock.now = 5.0

    with pytest.raises(TimeoutError, match="a is still pending after 5 s"):
        polling.heard(job("a", "pending"))


def test_both_clients_can_be_asked_the_same() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        methods = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in methods if not name.startswith("_")}

    asynchronous = public(muster.AsyncClient)
    asynchronous["close"] = asynchronous.pop("aclose")
    assert asynchronous == public(muster.Client)


def test_the_package_names_its_clients_and_nothing_that_is_not_there() -> None:
    assert set(muster.__all__) <= set(dir(muster))
    assert all(getattr(muster, name) is not None for name in muster.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        muster.nonsense  # noqa: B018
