"""Which tasks are typical, when nobody says: the most frequent, and rarer ones counted as others like them."""

from __future__ import annotations

import pytest

from muster.engine.typical import folded, learned
from muster.model.jobs import Profile, TaskGroup
from muster.model.labels import ANYWHERE, Constraint
from muster.model.nodes import Request
from muster.model.placement import MOST_LEARNED, Typical
from muster.model.resources import CPU, GPU

NEW = Constraint.parse(selector={"model": "new"})


def a_kind(cores: int, gpus: int = 1, count: int = 1, where: Constraint = ANYWHERE) -> Typical:
    return Typical(request=Request.of({CPU: cores * 1000, GPU: gpus * 1000}), constraint=where, count=count)


def a_profile(*kinds: Typical) -> Profile:
    return Profile(
        groups=tuple(
            TaskGroup(name=f"g{number}", min=it.count, initial=it.count, max=it.count + 3, request=it.request)
            for number, it in enumerate(kinds)
        )
    )


def test_tasks_of_all_profiles_are_counted_at_their_min_by_what_they_ask_for() -> None:
    jobs = [
        (a_profile(a_kind(1, count=2), a_kind(8)), 10),
        (a_profile(a_kind(8, count=5)), 3),
        (a_profile(a_kind(4)), 0),
    ]

    assert learned(jobs) == (a_kind(8, count=25), a_kind(1, count=20))
    assert learned(reversed(jobs)) == learned(jobs)


MANY = [a_kind(cores, count=1000 - cores) for cores in range(1, MOST_LEARNED + 1)]


@pytest.mark.parametrize(
    "rare, place, count",
    [
        pytest.param(a_kind(99), 0, 1000, id="a rare kind counts as the most frequent of those like it"),
        pytest.param(a_kind(99, gpus=8), MOST_LEARNED, 1, id="unless it asks for another number of devices"),
        pytest.param(a_kind(99, where=NEW), MOST_LEARNED, 1, id="or may only go elsewhere"),
    ],
)
def test_what_is_rare_is_not_forgotten(rare: Typical, place: int, count: int) -> None:
    kept = folded([*MANY, rare])

    assert sum(it.count for it in kept) == sum(it.count for it in MANY) + 1
    assert kept[place].count == count
    assert len(kept) == max(place + 1, MOST_LEARNED)
