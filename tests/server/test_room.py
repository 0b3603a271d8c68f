"""How many jobs a queue has, and whether any may still come."""

from __future__ import annotations

import pytest

from muster.server.room import Closed, Full, Room


def test_a_queue_closes_only_without_jobs_and_then_nothing_comes_until_it_is_opened() -> None:
    room = Room({"a": {"queued": 1, "failed": 2}}, most=3)
    assert room.close("a") == 1
    room.take({"a": 1})  # it is open still
    room.end([("a", "cancelled"), ("a", "cancelled")])

    assert room.close("a") == 0
    with pytest.raises(Closed, match="'a'"):
        room.take({"b": 1, "a": 1})
    assert (room.alive("a"), room.alive("b")) == (0, 0)
    room.open("a")
    room.take({"a": 3})
    with pytest.raises(Full):
        room.take({"a": 1})


def test_a_job_that_was_let_in_counts_before_any_turn_has_seen_it() -> None:
    room = Room({}, most=3)
    room.take({"a": 1})

    assert room.close("a") == 1
    room.give_back({"a": 1})
    assert room.close("a") == 0
