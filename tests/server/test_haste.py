"""Threads give way sooner while somebody waits for a small answer, and only then."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from muster.server import haste
from muster.server.access import Access
from muster.server.api.gate import Gate
from muster.server.haste import SHORT_S, USUAL_S, Haste
from muster.server.limits import Limits


@pytest.fixture(autouse=True)
def _interval_as_it_was() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(USUAL_S)
    yield
    sys.setswitchinterval(before)


def is_hurried() -> bool:
    """Whether threads give way soon."""
    assert sys.getswitchinterval() in (pytest.approx(SHORT_S), pytest.approx(USUAL_S))
    return sys.getswitchinterval() == pytest.approx(SHORT_S)


def test_threads_hurry_until_the_last_who_waits_has_an_answer() -> None:
    async def story() -> None:
        hurry = Haste()
        first, second = hurry.begin(), hurry.begin()
        assert is_hurried()
        first()
        first()  # once is enough
        assert is_hurried()
        second()
        assert not is_hurried()

    asyncio.run(story())


def test_who_waits_for_long_hurries_nobody_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(haste, "LONGEST_S", 0.0)

    async def story() -> None:
        end = Haste().begin()
        while is_hurried():
            await asyncio.sleep(0)
        end()
        assert not is_hurried()

    asyncio.run(story())


@pytest.mark.parametrize(
    "method, hurries",
    [
        pytest.param("GET", True, id="who only looks is answered soon"),
        pytest.param("POST", False, id="who brings work waits as others do"),
    ],
)
def test_a_request_is_hurried_until_its_answer_begins(method: str, hurries: bool) -> None:
    seen: list[bool] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        seen.append(is_hurried())
        await send({"type": "http.response.start", "status": 200, "headers": []})
        seen.append(is_hurried())  # a stream goes on for hours

    async def ignore(_message: Any = None) -> Any:
        return {}

    service: Any = SimpleNamespace(access=Access(()), limits=Limits())
    scope = {"type": "http", "method": method, "path": "/api/v1/queues", "headers": [], "client": ("somewhere", 1)}
    asyncio.run(Gate(app, service)(scope, ignore, ignore))
    assert seen == [hurries, False]
    assert not is_hurried()
