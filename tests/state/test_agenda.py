"""What is to come, in the order in which it comes."""

from __future__ import annotations

import pytest

from muster.model import events as ev
from muster.model.names import name_key
from muster.state.agenda import Agenda


def other(node: str) -> ev.Event:
    return ev.NodeRemoved(node=node)


def end(job: str) -> ev.Event:
    return ev.JobSucceeded(job=job, attempt=1)


def came(agenda: Agenda) -> list[str]:
    """Names of nodes and jobs, first come first."""
    names = []
    while (first := agenda.first()) is not None:
        agenda.pop(first)
        names.append(first.event.job if isinstance(first.event, ev.JobSucceeded) else getattr(first.event, "node", ""))
    return names


@pytest.mark.parametrize(
    "expected, order",
    [
        pytest.param([(1, "a"), (2, "b"), (3, "c")], ["a", "b", "c"], id="in the order of moments"),
        pytest.param([(3, "a"), (1, "b"), (2, "c")], ["b", "c", "a"], id="also if expected in another"),
        pytest.param([(1, "b"), (1, "a")], ["b", "a"], id="at one moment in the order expected"),
        pytest.param([(2, "a"), (1, "b"), (2, "c"), (1, "d")], ["b", "d", "a", "c"], id="wherever they were put"),
    ],
)
def test_things_come_when_they_are_due(expected: list[tuple[int, str]], order: list[str]) -> None:
    agenda = Agenda()
    for at_ms, node in expected:
        agenda.expect(at_ms, other(node))

    assert came(agenda) == order
    assert agenda.first() is None


def test_ends_come_first_and_by_name():
    agenda = Agenda()
    agenda.expect(5, other("n"))
    for job in ("job-10", "job-9"):
        agenda.expect_end(5, name_key(job), 1, end(job))
    agenda.expect_end(6, name_key("job-1"), 1, end("job-1"))
    agenda.expect(4, other("m"))

    assert came(agenda) == ["m", "job-9", "job-10", "n", "job-1"]
