"""Where two plans differ first, and how to say it. Knows no action or verdict by name: new ones are shown as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

from muster.model.jobs import Task
from muster.model.names import name_key
from muster.model.plan import Plan
from muster.model.resources import Resources
from muster.state.record.lines import Said

_SHOWN = 400  # characters: where thousands of tasks differ, the first say enough
_NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between a recorded plan and the one made now, in words."""

    what: str
    recorded: str
    now: str


def first_difference(recorded: Plan, now: Plan, verdicts: Mapping[str, Said]) -> Difference | None:
    """The first action that is another; else a verdict, a head, the moment to wake. None: the plans are the same.

    `verdicts` is what `now` says beside its actions, told as in the record.
    """
    return (
        _in_actions(recorded.actions, now.actions)
        or _in_names("the verdict on", recorded.verdicts, verdicts)
        or _in_names("the head of queue", recorded.heads, now.heads)
        or _between("when to look again", _seconds(recorded.wake_ms), _seconds(now.wake_ms))
    )


def _in_actions(recorded: Sequence[Any], now: Sequence[Any]) -> Difference | None:
    for number, (one, other) in enumerate(zip_longest(recorded, now), start=1):
        if found := _between(f"action {number}", one, other):
            return found
    return None


def _in_names(what: str, recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Difference | None:
    if recorded == now:
        return None
    for name in sorted({*recorded, *now}, key=name_key):
        if found := _between(f"{what} {name}", recorded.get(name), now.get(name)):
            return found
    return None


def _between(what: str, recorded: Any, now: Any) -> Difference | None:
    # Named tuples of two types are equal where their fields are.
    if recorded == now and type(recorded) is type(now):
        return None
    return Difference(what=what, recorded=_beside(recorded, now), now=_beside(now, recorded))


def _beside(value: Any, other: Any) -> str:
    """The value, of which only what the other does not have as well is told in full."""
    named = _fields(value)
    if not named or type(value) is not type(other):
        return shown(value)
    others = _fields(other)
    first = next(iter(named))
    told = {name: each for name, each in named.items() if name == first or each != others[name]}
    return _cut(_with_fields(value, told))


def shown(value: Any) -> str:
    """A value on one line."""
    return _cut(_words(value))


def _words(value: Any) -> str:
    if value is None:
        return _NOTHING
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Task):
        return f"{value.name}@{value.node}" + (f"[{','.join(map(str, value.devices))}]" if value.devices else "")
    if isinstance(value, Mapping | Resources):
        return "{" + ", ".join(f"{name}: {_words(each)}" for name, each in value.items()) + "}"
    if named := _fields(value):
        return _with_fields(value, named)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_words, value)) + "]"
    return str(value)


def _with_fields(value: Any, named: Mapping[str, Any]) -> str:
    return " ".join([type(value).__name__, *(f"{name}={_words(each)}" for name, each in named.items())])


def _fields(value: Any) -> dict[str, Any]:
    """The fields that make a value what it is."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value) if each.init and each.compare}
    return dict(zip(value._fields, value, strict=True)) if hasattr(value, "_fields") else {}


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _seconds(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else f"t = {moment_ms / 1000:g} s"
