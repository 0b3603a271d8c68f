"""Typed readers over one mapping of a document.

Each reader answers with a usable value, or notes a Problem and answers with the default, so that one
wrong key does not hide the next. A key that no reader asked for is unknown: `close` says so and lists
those that were asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import TypeVar

from muster.documents.problems import Problems, joined, quoted
from muster.documents.scalars import (
    ANY_EXTENDED,
    DURATION,
    LONGEST_MS,
    MICRO,
    NAME,
    NODE_RESOURCES,
    TASK_RESOURCES,
    amount_of,
    as_name,
    is_nothing,
    milliseconds,
    number_of,
    quantity_of,
    resource_name,
    text_of,
)
from muster.documents.values import List, Map, Scalar, Value, plain, shown
from muster.model.errors import InvalidValue
from muster.model.resources import CPU, GPU

_LONGEST_GUESS = 40  # characters of a key for which we look for what was meant
_LONGEST_FIELD = 400  # characters of a path inside of Kubernetes' shapes
_INDEX = re.compile(r"\[([0-9]{1,9})\]")
_WORDS = {"on": True, "true": True, "off": False, "false": False}

_T = TypeVar("_T")


class Fields:
    """The keys of one mapping. `kind` says what the mapping describes."""

    __slots__ = ("_asked", "_map", "kind", "path", "problems")

    def __init__(self, kind: str, value: Map, path: str, problems: Problems) -> None:
        self.kind = kind
        self.path = path
        self.problems = problems
        self._map = value
        self._asked: dict[str, None] = {}

    @classmethod
    def of(cls, kind: str, value: Value, path: str, problems: Problems) -> Fields | None:
        """Readers over `value`; None, with a problem noted, when it is not a mapping."""
        if isinstance(value, Map):
            return cls(kind, value, path, problems)
        problems.refuse(path, value.line, shown(value), "a mapping")
        return None

    # --- what is there ---

    @property
    def value(self) -> Map:
        """The mapping itself."""
        return self._map

    @property
    def line(self) -> int:
        """Where the mapping begins."""
        return self._map.line

    def has(self, key: str) -> bool:
        """Whether the key is given."""
        return key in self._map.values

    def has_map(self, key: str) -> bool:
        """Whether the key is given as a mapping."""
        return isinstance(self._map.values.get(key), Map)

    def given(self) -> Iterator[str]:
        """The keys given, in the order of the file."""
        return iter(self._map.values)

    def path_of(self, key: str) -> str:
        """The path of a key of this mapping."""
        return joined(self.path, key)

    def get(self, key: str) -> Value | None:
        """The value of a key, as it stands in the file."""
        self._asked[key] = None
        return self._map.values.get(key)

    def refuse(self, key: str, allowed: str) -> None:
        """Note that the value of `key` is not allowed."""
        value = self._map.values[key]
        self.problems.refuse(self.path_of(key), value.line, shown(value), allowed)

    def add(self, key: str, message: str) -> None:
        """Note a problem at `key`, or at the mapping when the key is not given."""
        value = self._map.values.get(key)
        self.problems.add(self.path_of(key), value.line if value else self.line, message)

    def missing(self, key: str, allowed: str) -> None:
        """Note that `key` should be given."""
        self.problems.add(self.path_of(key), self.line, f"missing: {allowed}")

    def close(self, *, hint: str = "", told: Mapping[str, str] = MappingProxyType({})) -> None:
        """Note every key that nobody asked for; `hint` says what may be there besides, `told` what to say of some."""
        for key in self._map.values:
            if key in self._asked:
                continue
            if key in told:
                self.refuse_key(key, told[key])
                continue
            keys = ", ".join(sorted(self._asked)) + (f", {hint}" if hint else "")
            self.refuse_key(key, f"{self._guess(key)}the keys here are {keys}")

    def refuse_key(self, key: str, allowed: str) -> None:
        """Note that there may be no such key."""
        self.problems.refuse(self.path_of(key), self._map.lines[key], f"the key {quoted(key)}", allowed)

    def _guess(self, key: str) -> str:
        close = get_close_matches(key, self._asked, n=1) if len(key) <= _LONGEST_GUESS else []
        return f"did you mean {close[0]}? " if close else ""

    # --- readers ---

    def name(self, key: str, allowed: str = NAME) -> str | None:
        """A name, or None when it is absent or wrong."""
        value = self.get(key)
        return None if value is None else as_name(value, self.path_of(key), self.problems, allowed)

    def required_name(self, key: str, allowed: str = NAME) -> str | None:
        """A name that must be given; None when it is not, or wrong."""
        if not self.has(key):
            self.get(key)
            self.missing(key, allowed)
            return None
        return self.name(key, allowed)

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number in a range."""
        number = self.optional_integer(key, least, most)
        return default if number is None else number

    def optional_integer(self, key: str, least: int, most: int, allowed: str = "") -> int | None:
        """A whole number in a range, or None when the key is absent or wrong."""
        value = self.get(key)
        if value is None:
            return None
        number = value.value if isinstance(value, Scalar) else None
        if isinstance(number, int) and not isinstance(number, bool) and least <= number <= most:
            return number
        self.refuse(key, allowed or f"a whole number from {least} to {most}")
        return None

    def duration(self, key: str, default: int = 0, *, least_ms: int = 0) -> int:
        """Milliseconds."""
        ms = self.optional_duration(key, least_ms=least_ms)
        return default if ms is None else ms

    def optional_duration(self, key: str, *, least_ms: int = 0) -> int | None:
        """Milliseconds, or None when the key is absent or wrong."""
        value = self.get(key)
        if value is None:
            return None
        ms = milliseconds(value)
        if ms is None or not least_ms <= ms <= LONGEST_MS:
            self.refuse(key, f"{DURATION}, at least {least_ms} ms" if least_ms else DURATION)
            return None
        return ms

    def boolean(self, key: str, default: bool) -> bool:
        """on or off."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, Scalar):
            if isinstance(value.value, bool):
                return value.value
            if value.text in _WORDS:
                return _WORDS[value.text]
        self.refuse(key, "on or off (true or false)")
        return default

    def choice(self, key: str, choices: Mapping[str, _T], default: _T) -> _T:
        """One of a few words. YAML may have made a boolean of on and off."""
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, Scalar):
            word = value.text
            if isinstance(value.value, bool) and word not in choices:
                word = "on" if value.value else "off"
            if word in choices:
                return choices[word]
        self.refuse(key, f"one of {', '.join(choices)}")
        return default

    def micro(self, key: str, allowed: str, *, least: int, most: int) -> int | None:
        """A number in whole micro-units between `least` and `most` of them, or None when absent or wrong."""
        value = self.get(key)
        if value is None:
            return None
        micro = None if (number := number_of(value)) is None else number * MICRO
        if micro is None or micro.denominator != 1 or not least <= micro <= most:
            self.refuse(key, allowed)
            return None
        return micro.numerator

    def is_word(self, key: str, word: str) -> bool:
        """Whether the value is this word."""
        value = self.get(key)
        return isinstance(value, Scalar) and value.text == word

    def is_off(self, key: str) -> bool:
        """Whether the value is `off`, which YAML reads as false."""
        value = self.get(key)
        return isinstance(value, Scalar) and (value.value is False or value.text == "off")

    def mapping(self, key: str, kind: str) -> Fields:
        """Readers over a nested mapping; one without keys when it is absent, empty or wrong."""
        value, path = self.get(key), self.path_of(key)
        if isinstance(value, Map):
            return Fields(kind, value, path, self.problems)
        if value is None or is_nothing(value):
            return Fields(kind, Map(value.line if value else self.line, {}, {}), path, self.problems)
        self.refuse(key, "a mapping")
        return Fields(kind, Map(value.line, {}, {}), path, Problems(""))  # what it lacks is not worth telling

    def items(self, key: str) -> Sequence[tuple[Value, str]]:
        """The items of a list, each with its path."""
        value = self.get(key)
        if value is None or is_nothing(value):
            return ()
        if not isinstance(value, List):
            self.refuse(key, "a list")
            return ()
        path = self.path_of(key)
        return [(item, f"{path}[{index}]") for index, item in enumerate(value.items)]

    def entries(self, key: str, kind: str) -> Iterator[Fields]:
        """Readers over each mapping of a list."""
        for item, path in self.items(key):
            fields = Fields.of(kind, item, path, self.problems)
            if fields is not None:
                yield fields

    def plain(self, key: str) -> object:
        """The value as YAML libraries give it: for Kubernetes' own shapes."""
        value = self.get(key)
        return None if value is None else plain(value)

    def texts(self, key: str) -> dict[str, str]:
        """A mapping of text to text, such as labels: each value as it was written."""
        fields = self.mapping(key, key)
        texts = {}
        for name in sorted(fields.given()):
            value = fields.get(name)
            text = text_of(value)
            if text is None:
                fields.refuse(name, "text")
            else:
                texts[name] = text
        return texts

    def refuse_invalid(self, err: InvalidValue) -> None:
        """Note what the model refused; its field leads to the line as far as the file goes with it."""
        value = _at(self._map, err.field)
        field = err.field if err.field.isprintable() and len(err.field) <= _LONGEST_FIELD else quoted(err.field)
        path = f"{self.path}.{field}" if self.path else field
        what = shown(value) if isinstance(value, Scalar) else _shown_plain(err.value)
        self.problems.refuse(path, value.line, what, err.allowed)

    # --- amounts of resources ---

    def node_amounts(self) -> dict[str, int]:
        """Every resource among the keys, `pods` too, in base units."""
        return self._amounts(NODE_RESOURCES)

    def task_amounts(self) -> dict[str, int]:
        """Every resource among the keys, in base units. A task is always one pod."""
        return self._amounts(TASK_RESOURCES)

    def cores(self, key: str) -> int:
        """Millicores; 0 when the key is absent, off or wrong."""
        value = self.get(key)
        if value is None or self.is_off(key):
            return 0
        try:
            return amount_of(CPU, value)
        except InvalidValue as err:
            self.refuse(key, err.allowed if "2^63" in err.allowed else f"{quantity_of(CPU)}, or off")
            return 0

    def quota(self, key: str) -> dict[str, int]:
        """A nested mapping of resources, where 0 says: none at all."""
        fields = self.mapping(key, "quota")
        amounts = fields.node_amounts()
        fields.close(hint=ANY_EXTENDED)
        return amounts

    def close_with_amounts(self, told: Mapping[str, str] = MappingProxyType({})) -> None:
        """`close`, for a mapping with amounts among its keys."""
        self.close(hint=ANY_EXTENDED, told=told)

    def _amounts(self, known: Mapping[str, str]) -> dict[str, int]:
        self._asked.update(dict.fromkeys(known))
        amounts: dict[str, int] = {}
        for key, value in self._map.values.items():
            name = resource_name(key, known)
            if name is None:
                continue
            self._asked[key] = None
            if name in amounts:
                self.add(key, f"{name} is given twice here: gpu is short for {GPU}")
                continue
            amounts[name] = 0
            try:
                amounts[name] = amount_of(name, value)
            except InvalidValue as err:
                self.refuse(key, err.allowed if "2^63" in err.allowed else quantity_of(name))
        return dict(sorted(amounts.items()))


def _at(value: Value, field: str) -> Value:
    """The value that a field such as `tolerations[0].key` leads to, or the last one on the way."""
    while field:
        field = field.removeprefix(".")
        index = _INDEX.match(field)
        if index and isinstance(value, List) and int(index[1]) < len(value.items):
            value, field = value.items[int(index[1])], field[index.end() :]
        elif isinstance(value, Map) and (key := _first_key(value, field)) is not None:
            value, field = value.values[key], field[len(key) :]
        else:
            break
    return value


def _first_key(mapping: Map, field: str) -> str | None:
    """The key that `field` begins with; keys may hold dots, so the longest."""
    keys = [key for key in mapping.values if key and (field == key or field.startswith((f"{key}.", f"{key}[")))]
    return max(keys, key=len, default=None)


def _shown_plain(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else quoted(str(value))
