"""Recorded turns: whatever happens in a world can be written down, read back exactly, and decided again."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest
from effort import a_part
from hypothesis import given
from hypothesis import strategies as st
from worlds import EVERYTHING, a_job, a_world, scenarios

from muster.model import events as ev
from muster.model.budgets import EvictionLimit
from muster.model.jobs import Job, Task
from muster.model.plan import Action, Evict, Promise, Return, Rule, Verdict, Waiting
from muster.model.policy import Policy, Preemption
from muster.model.reasons import Reason
from muster.model.resources import MICRO
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation
from muster.state.record import Difference, Record, Recorder, RecordError, Replay
from muster.state.record.forms import Forms
from muster.state.record.lines import Language, dumps
from muster.state.record.parts import Unreadable
from muster.state.record.replay import Turn

# --- records, and what tampers with them --------------------------------------------------------


def recorded(scenario: Scenario, *, skips_turns: bool = True, with_facts: bool = True) -> bytes:
    """The record of a whole simulation."""
    file = io.BytesIO()
    with Recorder(file, scenario.policy, with_facts=with_facts) as recorder:
        for _ in Simulation(scenario, skips_turns=skips_turns, estimates=False, listener=recorder):
            pass
    return file.getvalue()


def replayed(data: bytes) -> list[Turn]:
    """Every turn of a record, taken again."""
    return list(Replay(Record(io.BytesIO(data))))


def lines_of(data: bytes) -> list[Any]:
    """What stands in a record."""
    return [json.loads(line) for line in gzip.decompress(data).splitlines()]


def sealed(lines: list[Any]) -> bytes:
    """A record of these lines with an end that fits them, as whoever forges one would make it."""
    body = b"".join(map(dumps, lines[:-1]))
    turns = sum(line[0] == "turn" for line in lines[1:-1])
    return gzip.compress(body + dumps(["end", turns, hashlib.sha256(body).hexdigest()]))


def a_record(*, with_facts: bool = True) -> bytes:
    """Two jobs that fit one after the other."""
    world = a_world()
    file = io.BytesIO()
    with Recorder(file, world.state.policy, with_facts=with_facts) as recorder:
        world.run.listener = recorder
        world.with_node(cpu=2).with_queues("a")
        world.with_jobs(a_job("a").cpu(2).lasts(seconds=10), a_job("a").cpu(2).lasts(seconds=5))
        world.turn()
        world.at(seconds=10).turn()
    return file.getvalue()


def changed(change: Callable[[list[Any]], object], data: bytes | None = None) -> bytes:
    """The record with its lines changed, and sealed again."""
    lines = lines_of(a_record() if data is None else data)
    change(lines)
    return sealed(lines)


# --- properties ---------------------------------------------------------------------------------


@given(scenarios())
def test_property_a_record_replays_as_identical(scenario: Scenario) -> None:
    turns = replayed(recorded(scenario))

    assert [turn for turn in turns if turn.difference is not None] == []
    assert [turn.number for turn in turns] == list(range(1, len(turns) + 1))


@a_part(3)
@given(scenarios(replace(EVERYTHING, entries=6)))
def test_property_turns_that_decide_nothing_and_reasons_without_facts_can_be_recorded_too(scenario: Scenario) -> None:
    data = recorded(scenario, skips_turns=False, with_facts=False)

    assert [turn for turn in replayed(data) if turn.difference] == []


@given(scenarios(), st.randoms(use_true_random=False))
def test_property_changing_one_recorded_plan_is_found(scenario: Scenario, chance: Any) -> None:
    lines = lines_of(recorded(scenario))
    acting = [place for place, line in enumerate(lines) if place and line[0] == "actions"]
    if not acting:
        return
    place = chance.choice(acting)
    number = sum(line[0] == "turn" for line in lines[1:place]) + 1
    actions = lines[place][1]
    actions.pop(chance.randrange(len(actions)))
    if not actions:
        lines.pop(place)

    turns = replayed(sealed(lines))
    assert [turn.number for turn in turns if turn.difference is not None] == [number]


@given(scenarios())
def test_property_every_event_and_plan_is_read_back_exactly(scenario: Scenario) -> None:
    writing, heard = Language(), []

    class Echo:
        def happened(self, event: ev.Event, now_ms: int) -> None:
            heard.append(("event", event))

        def decided(self, snapshot: Any, plan: Any) -> None:
            heard.extend(("action", action) for action in plan.actions)
            heard.extend(("verdict", verdict) for verdict in plan.verdicts.values())

    for _ in Simulation(scenario, estimates=False, listener=Echo()):
        pass
    written = json.loads(json.dumps([(kind, getattr(writing, kind).write(value)) for kind, value in heard]))
    reading = Language(json.loads(json.dumps(writing.schema)))
    read = [(kind, getattr(reading, kind).read(data)) for kind, data in written]

    assert read == heard
    assert [type(value) for _, value in read] == [type(value) for _, value in heard]


# --- forms --------------------------------------------------------------------------------------

_TASKS = (Task("worker", 0, "n-0", (1, 3)), Task("worker", 1, "n-1"))


@pytest.mark.parametrize(
    "hint, value",
    [
        pytest.param(ev.Event, ev.QueueChanged(queue="a", changes={}), id="a change of nothing"),
        pytest.param(
            ev.Event,
            ev.QueueChanged(queue="a", changes={"quota": {"cpu": 0}, "excess_budget": None}),
            id="a quota of 0",
        ),
        pytest.param(
            ev.Event, ev.JobChanged(job="j", changes={"after": ("x", "y"), "priority": -3}), id="a change to a tuple"
        ),
        pytest.param(
            ev.Event, ev.JobChanged(job="j", changes={"rule": Rule.PRIORITY}), id="a change to a value of ours"
        ),
        pytest.param(
            ev.Event,
            ev.EvictionLimitSet(limit=EvictionLimit(name="n/web", allowed=1, covers=(("n/a", 1), ("n/b", 2)))),
            id="a limit to evictions",
        ),
        pytest.param(ev.Event, ev.NodeCordoned(node="n", cordoned=False), id="what is not the default"),
        pytest.param(ev.Event, ev.JobCancelled(job="κ-1 \n\u2028"), id="a name in any script"),
        pytest.param(Action, Return("j", 1), id="a small tuple"),
        pytest.param(Action, Promise("j", 2, None), id="a promise that is gone"),
        pytest.param(Action, Evict("j", 1, _TASKS, True, Rule.FAIR_SHARE, "k"), id="tasks with devices"),
        pytest.param(
            Verdict, Waiting(reason=Reason.NO_ROOM, facts={"n": 1, "x": 1.5, "is": True, "l": ["a"]}), id="mixed facts"
        ),
        pytest.param(Policy, Policy(), id="the policy of production"),
        pytest.param(
            Policy, Policy(over_share=None, preemption=Preemption.DRY_RUN, starts_per_turn=1 << 62), id="another policy"
        ),
    ],
)
def test_a_value_survives_being_written(hint: Any, value: Any) -> None:
    (form,) = Forms(hint).roots

    read = form.read(json.loads(json.dumps(form.write(value))))

    assert read == value
    assert type(read) is type(value)


@dataclass(frozen=True)
class _Work:
    """What a version to come might add: a kind of value that no other code knows."""

    hours: float
    how: int | Rule | None = None
    steps: Sequence[tuple[str, int]] = ()
    level: Literal["low", "high"] = "low"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(_Work(hours=1.5), id="defaults"),
        pytest.param(_Work(hours=2, how=3), id="a number where a value could be"),
        pytest.param(_Work(hours=2.5, how=Rule.PRIORITY), id="a value where a number could be"),
        pytest.param(_Work(hours=2.5, steps=(("a", 1), ("b", 2)), level="high"), id="pairs and words"),
    ],
)
def test_a_new_kind_of_value_is_recorded_without_a_change(value: _Work) -> None:
    (form,) = Forms(_Work).roots

    assert form.read(json.loads(json.dumps(form.write(value)))) == value


def test_jobs_with_one_profile_share_it_again_after_reading() -> None:
    profile = a_job("a").cpu(1).built(0, 0).job.profile
    jobs = [Job(id=name, queue="a", profile=profile) for name in ("x", "y")]
    (writing,), (reading,) = Forms(Job).roots, Forms(Job).roots

    first, second = (reading.read(writing.write(job)) for job in jobs)

    assert [first, second] == jobs
    assert first.profile is second.profile


def test_a_default_that_changed_since_is_read_as_it_was() -> None:
    then = Language()
    schema = json.loads(json.dumps(then.schema))
    next(field for field in schema["Queue"] if field[0] == "weight")[1] = 7 * MICRO

    assert Language(schema).event.read(["QueueSet", [["a"]]]).queue.weight == 7 * MICRO


def test_a_field_that_is_new_today_has_todays_default() -> None:
    schema = json.loads(json.dumps(Language().schema))
    schema["Queue"] = [field for field in schema["Queue"] if field[0] != "cordoned"]

    assert Language(schema).event.read(["QueueSet", [["a"]]]).queue.cordoned is False


@pytest.mark.parametrize(
    "data, named",
    [
        pytest.param(["JobFrozen", ["a"]], "JobFrozen", id="an event of another version"),
        pytest.param(["JobCancelled", [3]], "JobCancelled.job: 3", id="a number where a name belongs"),
        pytest.param(["JobCancelled", []], "JobCancelled lacks job", id="a field that is missing"),
        pytest.param(["JobCancelled", ["a", "b", 1]], "2 fields, not 3", id="a field too many"),
        pytest.param(["JobPreempted", ["a", 1, "WHIM", "b", []]], "'WHIM'", id="a rule nobody knows"),
        pytest.param(["JobSubmitted", [["a", "q", 4]]], "4 is not the number", id="a profile that never came"),
        pytest.param(["ForeignPlaced", ["f", "n", {"cpu": -1}]], "-1", id="an amount below nothing"),
        pytest.param("JobCancelled", "not a list", id="no list at all"),
        pytest.param(["NodeCordoned", ["n", 1]], "NodeCordoned.cordoned: 1", id="a number where a truth belongs"),
    ],
)
def test_what_cannot_be_read_is_named(data: Any, named: str) -> None:
    with pytest.raises(Unreadable, match=named.replace("[", r"\[")):
        Language().event.read(data)


# --- files that cannot be replayed --------------------------------------------------------------


def _of_format_2(lines: list[Any]) -> None:
    lines[0] |= {"format": 2, "by": "9.0"}


def _another_policy(lines: list[Any]) -> None:
    lines[1][2] = [2000]


@pytest.mark.parametrize(
    "data, message",
    [
        pytest.param(lambda: b"", "empty", id="nothing at all"),
        pytest.param(lambda: b"jobs: []\n", "not a record of Muster", id="a scenario"),
        pytest.param(lambda: gzip.compress(b"hello\n"), "not a line of JSON", id="something else that is compressed"),
        pytest.param(lambda: gzip.compress(b'{"a": 1}\n'), "its first line is another", id="other lines of JSON"),
        pytest.param(lambda: a_record()[:-200], "breaks off after . whole turns", id="a file that was cut off"),
        pytest.param(
            lambda: gzip.compress(b"".join(map(dumps, lines_of(a_record())[:-1]))),
            "breaks off after 3 whole turns",
            id="a recorder that was killed",
        ),
        pytest.param(
            lambda: gzip.compress(gzip.decompress(a_record()).replace(b'"n-0"', b'"n-1"')),
            "changed after it was written",
            id="a name that was changed",
        ),
        pytest.param(lambda: changed(_of_format_2), "format 2.*written by Muster 9.0", id="a format of the future"),
        pytest.param(lambda: changed(_another_policy), "not the one that its hash names", id="another configuration"),
        pytest.param(lambda: changed(lambda lines: lines.pop(1)), "configuration is missing", id="no configuration"),
        pytest.param(lambda: changed(lambda it: it.insert(3, ["noise"])), "line 4.*no line", id="a line of no kind"),
        pytest.param(
            lambda: changed(lambda it: it.insert(2, ["events", 0, [["JobFrozen", ["a"]]]])),
            "line 3.*'JobFrozen'.*written by Muster",
            id="an event that this version does not know",
        ),
        pytest.param(
            lambda: changed(lambda it: it.insert(2, ["events", 0, [["JobReturned", ["nobody"]]]])),
            "line 3.*nothing like this can happen.*nobody",
            id="an event that cannot happen",
        ),
        pytest.param(
            lambda: changed(lambda it: it[0]["types"]["Job"].append(["colour"])),
            "'colour'",
            id="a field of another version",
        ),
        pytest.param(lambda: changed(lambda it: it[0].update(types=3)), "written by Muster", id="types that are none"),
    ],
)
def test_a_file_that_cannot_be_replayed_says_why(data: Callable[[], bytes], message: str) -> None:
    with pytest.raises(RecordError, match=message):
        replayed(data())


def test_a_damaged_file_is_an_error_and_never_anything_else() -> None:
    data = a_record()
    for place in range(len(data)):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        try:
            turns = replayed(damaged)
        except RecordError:
            continue
        # Some bytes of gzip's own header mean nothing.
        assert place < 10
        assert not any(turn.difference for turn in turns)


# --- differences --------------------------------------------------------------------------------


def _other_node(lines: list[Any]) -> None:
    (actions,) = [line[1] for line in lines[1:] if line[0] == "actions"][:1]
    next(action for action in actions if action[0] == "Start")[1][4][0][2] = "n-7"


def _other_reason(lines: list[Any]) -> None:
    (verdicts,) = [line[1] for line in lines[1:] if line[0] == "verdicts"][:1]
    verdicts["a-1"][1][0] = "NO_ROOM"


def test_a_record_without_facts_finds_another_reason() -> None:
    lines = lines_of(a_record(with_facts=False))
    (verdicts,) = [line[1] for line in lines[1:] if line[0] == "verdicts"][:1]
    assert verdicts == {"a-1": ["Reason", "RESERVED"]}
    verdicts["a-1"][1] = "NO_ROOM"

    first, *_ = replayed(sealed(lines))

    assert first.difference == Difference(what="the verdict on a-1", recorded="NO_ROOM", now="RESERVED")


def _other_wake(lines: list[Any]) -> None:
    next(line for line in lines[1:] if line[0] == "turn")[3] = 7000


@pytest.mark.parametrize(
    "change, what, told, now",
    [
        pytest.param(
            _other_node,
            "action 1",
            "Start job=a-0 tasks=[task-0@n-7]",
            "Start job=a-0 tasks=[task-0@n-0]",
            id="another node",
        ),
        pytest.param(
            _other_reason,
            "the verdict on a-1",
            "Waiting reason=NO_ROOM",
            "Waiting reason=RESERVED",
            id="another reason",
        ),
        pytest.param(_other_wake, "when to look again", "t = 7 s", "t = 10 s", id="another moment to wake"),
    ],
)
def test_a_difference_is_told_with_the_turn_what_was_recorded_and_what_is_now(
    change: Callable[[list[Any]], None], what: str, told: str, now: str
) -> None:
    first, *_ = replayed(changed(change))

    assert (first.number, first.now_ms) == (1, 0)
    assert first.difference is not None
    assert (first.difference.what, first.difference.recorded, first.difference.now) == (what, told, now)


def test_a_recorder_that_is_interrupted_leaves_a_whole_record_of_the_turns_before() -> None:
    file, world = io.BytesIO(), a_world()

    def interrupted() -> None:
        with Recorder(file, world.state.policy) as recorder:
            world.run.listener = recorder
            world.with_node(cpu=2).with_jobs(a_job("a").cpu(2))
            world.turn()
            world.with_jobs(a_job("a").cpu(1))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    (turn,) = replayed(file.getvalue())
    assert turn.difference is None


def test_the_same_turns_give_the_same_bytes() -> None:
    assert a_record() == a_record()


def test_a_fork_is_not_recorded() -> None:
    world = a_world().with_node(cpu=1).with_queues("a")
    heard: list[ev.Event] = []

    class Ear:
        def happened(self, event: ev.Event, now_ms: int) -> None:
            heard.append(event)

        def decided(self, snapshot: Any, plan: Any) -> None: ...

    world.run.listener = Ear()
    world.state.fork().apply(ev.JobSubmitted(job=a_job("a").cpu(1).built(0, 0).job), 0)

    assert heard == []
