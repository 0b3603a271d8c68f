"""Values that are made when someone looks are made once, and are then what a tuple or a dict would be."""

from __future__ import annotations

import pickle

from muster.model.made import Made, MadeMapping
from muster.model.plan import Later, Plan, Started, Verdicts, Waiting
from muster.model.reasons import Reason


def test_a_made_tuple_is_made_once_when_someone_looks_into_it() -> None:
    looks: list[int] = []

    def make() -> list[str]:
        looks.append(1)
        return ["a", "b"]

    made = Made(make, 2)
    assert len(made) == 2
    assert bool(made)
    assert not looks
    assert list(made) == ["a", "b"]
    assert (made[0], made[:1]) == ("a", ("a",))
    assert made == ("a", "b")
    assert made == Made(lambda: iter("ab"))
    assert hash(made) == hash(("a", "b"))
    assert repr(made) == "('a', 'b')"
    assert looks == [1]


def test_a_made_tuple_that_passes_is_kept_only_for_those_who_look_into_it() -> None:
    looks: list[int] = []

    def make() -> list[str]:
        looks.append(1)
        return ["a", "b"]

    made = Made(make, 2, passes=True)
    assert list(made) == list(made) == ["a", "b"]
    assert looks == [1, 1]
    assert made[1] == "b"
    assert list(made) == ["a", "b"]
    assert looks == [1, 1, 1]


def test_a_made_tuple_is_stored_as_a_tuple() -> None:
    assert pickle.loads(pickle.dumps(Made(lambda: "ab"))) == ("a", "b")  # type: ignore[comparison-overlap]


def test_a_made_dict_knows_its_keys_before_it_is_made() -> None:
    looks: list[int] = []

    def make() -> dict[str, int]:
        looks.append(1)
        return {"a": 1}

    made = MadeMapping(make, ["a"])
    assert (len(made), list(made), "a" in made.keys()) == (1, ["a"], True)  # noqa: SIM118  # asks the keys only
    assert made["a"] == 1
    assert made == {"a": 1}
    assert made["a"] == 1
    assert looks == [1]
    assert type(pickle.loads(pickle.dumps(made))) is dict


def test_verdicts_are_made_one_by_one_and_reasons_before_them() -> None:
    looks: list[int] = []

    def make(place: int) -> Waiting:
        looks.append(place)
        return Waiting(reason=Reason.NO_ROOM)

    started = Started(cluster="east", tasks=())
    verdicts = Verdicts(
        lambda: {"a": Later(make, 0, Reason.NO_ROOM), "b": Later(make, 1, Reason.NO_ROOM), "c": started}
    )
    plan = Plan(now_ms=0, verdicts=verdicts)
    assert dict(plan.reasons()) == {"a": Reason.NO_ROOM, "b": Reason.NO_ROOM}
    assert not looks
    assert plan.verdicts["b"] == Waiting(reason=Reason.NO_ROOM)
    assert plan.verdicts["c"] is started
    assert plan.verdicts["b"] is plan.verdicts["b"]
    assert looks == [1]
    assert dict(plan.reasons()) == {"a": Reason.NO_ROOM, "b": Reason.NO_ROOM}
    assert pickle.loads(pickle.dumps(verdicts)) == dict(verdicts)


def test_reasons_are_told_of_verdicts_that_are_a_dict() -> None:
    waiting = Waiting(reason=Reason.BEHIND, facts={"queue": "a", "head": "b"})
    plan = Plan(now_ms=0, verdicts={"a": waiting, "b": Started(cluster="east", tasks=())})
    assert dict(plan.reasons()) == {"a": Reason.BEHIND}
