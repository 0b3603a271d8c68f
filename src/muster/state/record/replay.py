"""Takes recorded turns again, and says where the engine decides differently today.

The world follows the recorded events, whatever is decided now, so that every turn is judged by itself: a difference in
one does not make the next ones differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from muster.engine import plan as decide
from muster.model.events import JobSubmitted
from muster.model.plan import Plan
from muster.state.record.differing import Difference, first_difference, shown
from muster.state.record.lines import Line, config_hash, told
from muster.state.record.reading import Record
from muster.state.state import State

__all__ = ["Difference", "Replay", "Turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that was taken again; `number` from 1. None: its plan is the recorded one."""

    number: int
    now_ms: int
    difference: Difference | None


class Replay:
    """One record, replayed. Iterate over it: one Turn for each recorded one, or for the `last` so many.

    `skipped`: how many there are before those.
    """

    def __init__(self, record: Record, *, last: int | None = None) -> None:
        self.record = record
        self.skipped = 0 if last is None else max(record.turns - last, 0)
        self.jobs = 0
        self.events = 0
        self._language = record.language()
        self._state: State | None = None
        self._config = ""
        self._actions: list[Any] = []
        self._verdicts: dict[str, Any] = {}
        self._heads: dict[str, Any] = {}
        self._number = 0

    def __iter__(self) -> Iterator[Turn]:
        for line in self.record:
            match line:
                case ["config", str(config), policy]:
                    self._configure(config, policy)
                case ["events", int(at_ms), list(events)]:
                    for event in events:
                        self._apply(self._read("event", event), at_ms)
                case ["actions", list(actions)]:
                    self._actions += [self._read("action", action) for action in actions]
                case ["verdicts", dict(verdicts)]:
                    read = {job: one and self._read("verdict", one) for job, one in verdicts.items()}
                    _update(self._verdicts, read)
                case ["heads", dict(heads)]:
                    _update(self._heads, heads)
                case ["turn", int(), str(), int() | None] if self._number < self.skipped:
                    self._number += 1
                    self._actions = []
                case ["turn", int(now_ms), str(config), int() | None as wake_ms]:
                    yield self._turn(now_ms, config, wake_ms)
                case _:
                    self._refuse(line)

    def _read(self, kind: str, data: Any) -> Any:
        return self.record.reading(getattr(self._language, kind).read, data)

    def _configure(self, config: str, policy: Any) -> None:
        if config_hash(policy) != config:
            raise self.record.error("the configuration is not the one that its hash names")
        if self._state is not None:
            raise self.record.error("the configuration changes on the way, which this version cannot replay")
        self._config = config
        self._state = State(self._read("policy", policy))

    @property
    def _world(self) -> State:
        if self._state is None:
            raise self.record.error("the configuration is missing before it")
        return self._state

    def _apply(self, event: Any, at_ms: int) -> None:
        self.events += 1
        self.jobs += isinstance(event, JobSubmitted)
        world = self._world
        try:
            world.apply(event, at_ms)
        except Exception as err:  # whatever it is: no world had such events
            raise self.record.error(f"nothing like this can happen here: {shown(event)} ({err!r})") from err

    def _turn(self, now_ms: int, config: str, wake_ms: int | None) -> Turn:
        if config != self._config:
            raise self.record.error(f"the configuration {config!r} is not in the record")
        self._number += 1
        recorded = Plan(
            now_ms=now_ms,
            actions=tuple(self._actions),
            verdicts=dict(self._verdicts),  # or their reasons
            heads=dict(self._heads),
            wake_ms=wake_ms,
        )
        self._actions = []
        return Turn(number=self._number, now_ms=now_ms, difference=self._difference(recorded))

    def _difference(self, recorded: Plan) -> Difference | None:
        try:
            now = decide(self._world.freeze(recorded.now_ms))
            if not self.record.has_verdicts:
                now = replace(now, verdicts={}, heads={})
            return first_difference(recorded, now, told(now, with_facts=self.record.has_facts))
        except Exception as err:  # a broken invariant of today's engine is the difference people look for
            actions = f"a plan of {len(recorded.actions)} actions"
            return Difference(what="the plan", recorded=actions, now=f"the engine fails: {err!r}")

    def _refuse(self, line: Line) -> NoReturn:
        raise self.record.error(f"no line of a record: {shown(line)}")


def _update(known: dict[str, Any], news: Mapping[str, Any]) -> None:
    for name, value in news.items():
        if value is None:
            known.pop(name, None)
        else:
            known[name] = value
