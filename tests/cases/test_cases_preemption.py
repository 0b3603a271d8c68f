"""cases.md 4.1 and 4.2: who must give way. Nodes of 32 CPUs and 256 GiB; classes below 3 may be preempted."""

from __future__ import annotations

import pytest
from story import gang, job, single, small, story, world

NO_LIMIT = {"overShare": "off"}
CLASSES = {f"c{level}": level for level in range(1, 4)}


def of_class(level, entry):
    """The entry in a class: below 3 always preemptible, 3 never."""
    entry = {key: value for key, value in entry.items() if key != "lifetime"}
    lifetime = {"lifetime": 0} if level < 3 else {}
    return entry | lifetime | ({"priorityClass": f"c{level}"} if level else {})


def whole(name, queue="A", level=0, **fields):
    """A job that needs a whole node."""
    return of_class(level, job(name, queue, cpu=32, **fields))


def names(queue, *indices):
    return [f"{queue.lower()}-{index}" for index in indices]


# --- kube-batch ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "slots, running, newcomers, then, reason",
    [
        pytest.param(3, 2, 2, 3, "RESERVED", id="KP-1 equals take the free slot and evict nobody"),
        pytest.param(2, 2, 2, 2, "RESERVED", id="KP-2 on a full node equals wait"),
    ],
)
def test_equals_of_one_queue_evict_nobody(slots, running, newcomers, then, reason):
    jobs = [single("A", running), single("A", newcomers, "new", at=100)]

    told = story(world(nodes=[{"name": "n", "cpu": slots}], jobs=jobs, until=300))

    assert told.evictions() == []
    assert told.running_by_queue() == {"A": then}
    assert told.reason(f"new-{then - running}") == reason


@pytest.mark.parametrize(
    "slots, then",
    [
        pytest.param(8, {"q1": 4, "q2": 4}, id="KP-7 two queues of equal weight end with half each"),
        pytest.param(7, {"q1": 4, "q2": 3}, id="KP-7 the odd slot stays where it is"),
    ],
)
def test_a_newcomer_gets_its_half(slots, then):
    jobs = [single("q1", slots), single("q2", slots, at=100)]

    told = story(world(nodes=[{"name": "n", "cpu": slots}], jobs=jobs, until=600))

    assert told.running_by_queue() == then
    assert told.preempted() == [f"q1-{index}" for index in reversed(range(then["q1"], slots))]
    assert {(eviction.by[:2], eviction.rule) for eviction in told.evictions()} == {("q2", "fair-share")}
    assert told.idle_turns(since=101)


# --- Armada, several rounds ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, kind",
    [
        pytest.param({}, single, id="AP-1 three queues come one after the other, jobs of 1 CPU"),
        pytest.param({}, small, id="AP-1 jobs of 1 CPU and 4 GiB"),
        pytest.param({"weights": {"memory": 0}}, small, id="AP-1 memory weighs nothing"),
    ],
)
def test_rounds_of_newcomers(config, kind):
    more = [kind(queue, 1, f"more-{queue.lower()}", at=300) for queue in "ABC"]
    jobs = [kind("A", 32), kind("B", 32, at=100), kind("C", 10, at=200), *more]

    told = story(world(nodes=1, config=config, jobs=jobs, until=400))

    assert told.running_by_queue(at=99) == {"A": 32, "B": 0, "C": 0}
    assert told.preempted(at=100) == names("A", *range(31, 15, -1))
    assert told.running_by_queue(at=199) == {"A": 16, "B": 16, "C": 0}
    assert sorted(told.preempted(at=200)) == sorted(names("A", *range(11, 16)) + names("B", *range(11, 16)))
    assert told.running_by_queue(at=299) == {"A": 11, "B": 11, "C": 10}
    assert {eviction.rule for eviction in told.evictions()} == {"fair-share"}
    assert told.idle_turns(since=300)


@pytest.mark.parametrize(
    "kind, unused",
    [
        pytest.param(small, [], id="AP-2 twice the weight, twice the slots"),
        pytest.param(single, [], id="AP-2 the same with jobs that ask for no memory"),
        pytest.param(small, ["C", "D"], id="AP-3 queues nobody uses do not count"),
        pytest.param(single, ["C", "D"], id="AP-3 the same with jobs that ask for no memory"),
    ],
)
def test_weights_decide_how_much_is_taken_back(kind, unused):
    queues = [{"name": "A", "weight": 0.5}, {"name": "B"}, *({"name": name} for name in unused)]
    more = [kind(queue, 1, f"more-{queue.lower()}", at=200) for queue in "AB"]

    told = story(world(nodes=1, queues=queues, jobs=[kind("A", 32), kind("B", 32, at=100), *more], until=300))

    assert told.running_by_queue(at=100) == {"A": 11, "B": 21, **dict.fromkeys(unused, 0)}
    assert told.preempted() == names("A", *range(31, 10, -1))
    assert told.idle_turns(since=200)


@pytest.mark.parametrize(
    "kind, holder, newcomer",
    [
        pytest.param(small, "A", "B", id="AP-4 a whole node is more than the newcomer's half"),
        pytest.param(small, "B", "A", id="AP-4 whatever the queues are called"),
        pytest.param(single, "A", "B", id="AP-4 the same with jobs that ask for no memory"),
        pytest.param(single, "B", "A", id="AP-4 and with the names swapped"),
    ],
)
def test_nothing_is_taken_below_the_share(kind, holder, newcomer):
    told = story(world(nodes=1, jobs=[kind(holder, 32), whole("big", newcomer, at=100)], until=300))

    assert told.running_by_queue() == {holder: 32, newcomer: 0}
    assert told.evictions() == []
    assert told.reason("big") == "RESERVED"


@pytest.mark.parametrize("empty_round", [pytest.param(200, id="AP-6 with room for all nobody is moved")])
def test_room_for_all(empty_round):
    jobs = [small("A", 32), small("B", 32, at=100)]
    events = [{"at": empty_round, "setQueue": {"name": "A", "weight": 1}}]

    told = story(world(nodes=2, jobs=jobs, events=events, until=300))

    assert told.running_by_queue() == {"A": 32, "B": 32}
    assert told.evictions() == []
    assert told.idle_turns(since=100)


@pytest.mark.parametrize(
    "jobs, running, reasons",
    [
        pytest.param(
            [of_class(0, gang("a", 32, "A")), of_class(1, gang("b", 32, "B"))],
            ["b"],
            {"a": ["RESERVED"]},
            id="AP-7 of two gangs that come together the higher class starts",
        ),
        pytest.param(
            [whole("low", level=0), whole("high", level=1)],
            ["high"],
            {"low": ["RESERVED"]},
            id="AP-14 in one queue too",
        ),
        pytest.param(
            [of_class(0, small("A", 32)), of_class(1, small("B", 31))],
            ["a-0", *names("B", *range(31))],
            {"a-1": ["RESERVED"]},
            id="AP-16 the lower class takes what is left",
        ),
    ],
)
def test_the_higher_class_starts_first(jobs, running, reasons):
    told = story(world(nodes=1, priorityClasses=CLASSES, jobs=jobs, until=10))

    assert told.running() == running
    assert told.evictions() == []
    assert {name: told.reasons(name) for name in reasons} == reasons


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(small, id="AP-8 one job takes the place of the last one, and then nothing changes"),
        pytest.param(single, id="AP-8 the same with jobs that ask for no memory"),
    ],
)
def test_one_of_a_higher_class_comes(kind):
    jobs = [
        of_class(2, kind("A", 33)),
        of_class(3, kind("B", 1, at=100)),
        of_class(2, kind("A", 1, "more", at=200)),
    ]

    told = story(world(nodes=1, priorityClasses=CLASSES, jobs=jobs, until=400))

    assert told.running(at=99) == names("A", *range(32))
    assert [(eviction.job, eviction.by, eviction.rule) for eviction in told.evictions()] == [
        ("a-31", "b-0", "fair-share")
    ]
    assert told.running() == [*names("A", *range(31)), "b-0"]
    assert told.idle_turns(since=200)


@pytest.mark.parametrize(
    "jobs, running, evictions",
    [
        pytest.param(
            [whole("low", level=0), whole("mid", level=1, at=100)],
            ["low", "mid"],
            [],
            id="AP-9 the second takes the free node",
        ),
        pytest.param(
            [whole("mid", level=1), whole("low", level=0), whole("top", level=2, at=100)],
            ["mid", "top"],
            [("low", "top", "priority")],
            id="AP-10 inside one queue the lowest class gives way",
        ),
    ],
)
def test_classes_on_two_nodes(jobs, running, evictions):
    told = story(world(nodes=2, priorityClasses=CLASSES, jobs=jobs, until=300))

    assert told.running() == running
    assert [(eviction.job, eviction.by, eviction.rule) for eviction in told.evictions()] == evictions


@pytest.mark.parametrize(
    "foreign, running",
    [pytest.param(8, {"A": 24}, id="AP-17 pods that are not ours keep their 8 CPUs")],
)
def test_what_is_not_ours_is_never_touched(foreign, running):
    events = [{"at": 0, "foreign": {"node": "n-0", "cpu": foreign}}]
    nodes = [{"name": "n-0", "cpu": 32, "memory": "256Gi"}]

    told = story(world(nodes=nodes, jobs=[small("A", 32)], events=events, until=300))

    assert told.running_by_queue() == running
    assert told.evictions() == []


@pytest.mark.parametrize("cordoned", [pytest.param("n-0", id="AP-18 on a cordoned node jobs stay and none come")])
def test_cordoned_nodes(cordoned):
    jobs = [small("A", 20), small("A", 40, "more", at=100)]

    told = story(world(nodes=2, jobs=jobs, events=[{"at": 50, "cordonNode": cordoned}], until=300))
    where = [node for tasks in told.tasks().values() for node in tasks.values()]

    assert (where.count("n-0"), where.count("n-1")) == (20, 32)
    assert told.evictions() == []
    assert told.reason("more-32") == "RESERVED"


@pytest.mark.parametrize(
    "weight, held, reason",
    [
        pytest.param(1, 10, "RESERVED", id="AP-19 a queue at its share loses nothing"),
        pytest.param(2, 8, "RESERVED", id="AP-20 nor does one of more weight below its share"),
        pytest.param(1, 9, "RESERVED", id="AP-20 the whole share is protected, not a part of it"),
    ],
)
def test_a_queue_within_its_share_is_protected(weight, held, reason):
    """A may be preempted but holds no more than it is entitled to; B holds the rest and may not."""
    jobs = [of_class(0, small("A", held)), of_class(3, small("B", 32 - held)), of_class(0, small("C", 1, at=100))]
    queues = [{"name": "A", "weight": weight}, {"name": "B"}, {"name": "C"}]

    told = story(world(nodes=1, config=NO_LIMIT, queues=queues, priorityClasses=CLASSES, jobs=jobs, until=300))

    assert told.running_by_queue() == {"A": held, "B": 32 - held, "C": 0}
    assert told.evictions() == []
    assert told.reason("c-0") == reason
