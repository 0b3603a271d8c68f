"""A stream of events whose store forgets or fails once the answer has begun: said in the stream, and nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from muster.model import events as ev
from muster.model.policy import Policy
from muster.model.queues import Queue
from muster.sdk.errors import Expired
from muster.sdk.events import Following
from muster.sdk.retrying import Again, BrokenOff, Patience
from muster.server.access import Who
from muster.server.api import events as paging
from muster.server.api.app import application
from muster.server.finding import queue_thing
from muster.server.news import News
from muster.server.service import Service
from muster.server.tail import Tail
from muster.store.errors import StoreDown
from muster.store.rows import EventRow
from muster.store.store import Store

NOW_MS = 1_800_000_000_000
MANY = 3  # jobs, and events: each comes


class Troubled(Store):
    """A store to which something happens before some page of events is asked for."""

    trouble: Callable[[Store], None] | None = None
    pages_before = 0

    def events(self, after: int, limit: int, *, queue: str = "", job_set: str = "", job: str = "") -> list[EventRow]:
        if self.trouble is not None and self.pages_before == 0:
            trouble, self.trouble = self.trouble, None
            trouble(self)
        self.pages_before -= 1
        return super().events(after, limit, queue=queue, job_set=job_set, job=job)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with closing(Troubled.open(f"sqlite:///{tmp_path / 'muster.db'}")) as store:
        made = Service(store, lambda: NOW_MS, Policy())
        queue = Queue(name="a")
        made.turns.take([News(events=[ev.QueueSet(queue=queue)], things=[queue_thing(queue)])])
        jobs = [{"name": f"job-{number}", "queue": "a", "cpu": 1} for number in range(MANY)]
        made.submit({"jobs": jobs}, Who(name="ann", is_admin=True))
        made.turns.settle()
        yield made
        made.turns.stop()
        made.writer.close()


def answered(service: Service, after: int) -> bytes:
    """What is answered to whoever asks for the events there are."""

    async def ask() -> bytes:
        app = application(service)
        app.state.tail = Tail(service.store)
        headers = {"Authorization": f"Bearer {service.first_token()}"}
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url="http://muster", headers=headers
        ) as client:
            answer = await client.get("/api/v1/events", params={"after": after, "follow": "false"})
            assert answer.status_code == 200, answer.text
            return answer.content

    return asyncio.run(ask())


def forget(store: Store) -> None:
    while store.forget(NOW_MS + 1):
        pass


def fail(_store: Store) -> None:
    raise StoreDown("it is gone")


def told(following: Following, answer: bytes) -> tuple[list[int], Exception | None]:
    """The events in an answer, and how the stream ends for the one who reads it."""
    numbers: list[int] = []
    try:
        for event in following.feed(answer):
            numbers.append(event.id)
    except BrokenOff as broken:
        return numbers, Patience("http://muster", 60.0).after_breaking_off(following.ask(), broken)
    return numbers, None


def reader(after: int) -> Following:
    return Following(after=after, queue="", job_set="", job="", follow=False)


def test_whoever_asks_for_the_oldest_is_told_the_oldest_there_are_by_then(service: Service) -> None:
    assert isinstance(service.store, Troubled)
    service.store.trouble, service.store.pages_before = forget, 1  # after the question was found to be sound

    assert told(reader(0), answered(service, 0)) == ([], None)


@pytest.mark.parametrize(
    "trouble, error",
    [
        pytest.param(forget, Expired, id="events that are forgotten meanwhile are an error for good"),
        pytest.param(fail, Again, id="a store that fails is asked again"),
    ],
)
def test_a_stream_that_cannot_go_on_says_why(
    service: Service, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[Store], None], error: type[Exception]
) -> None:
    assert isinstance(service.store, Troubled)
    monkeypatch.setattr(paging, "PAGE", 2)
    service.store.trouble, service.store.pages_before = trouble, 2

    following = reader(0)
    numbers, ended = told(following, answered(service, 0))

    assert numbers == [1, 2]
    assert isinstance(ended, error)
    assert ("after", "2") in following.ask().params  # goes on after the last that it was told


def test_all_pages_are_told_where_nothing_happens(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "PAGE", 2)

    assert told(reader(0), answered(service, 0)) == (list(range(1, MANY + 1)), None)
