"""The values of a YAML document, each with its line, or of a JSON document, without.

Scalars follow YAML 1.1 as PyYAML's SafeLoader does, with two exceptions that would surprise: 10:30 is not
630 and 2026-11-02 is not a date; both stay text. Keys are always the text that was written.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

from yaml.constructor import SafeConstructor
from yaml.nodes import ScalarNode
from yaml.resolver import Resolver

from muster.documents.problems import quoted
from muster.model.errors import InvalidValue

TAG = "tag:yaml.org,2002:"

Plain: TypeAlias = bool | int | float | str | None

MOST_DEPTH = 100

_LONGEST_NUMBER = 64


class Scalar(NamedTuple):
    """One value: what YAML makes of it, and the text that was written.

    JSON says itself what is text: there the text of a number or a boolean is empty.
    """

    line: int
    value: Plain
    text: str


class List(NamedTuple):
    """A list."""

    line: int
    items: list[Value]


class Map(NamedTuple):
    """A mapping; `lines` says where each key stands."""

    line: int
    values: dict[str, Value]
    lines: dict[str, int]


Value: TypeAlias = Scalar | List | Map


def plain(value: Value) -> object:
    """The value as YAML libraries give it: dict, list and scalars."""
    if isinstance(value, Map):
        return {key: plain(item) for key, item in value.values.items()}
    if isinstance(value, List):
        return [plain(item) for item in value.items]
    return value.value


def shown(value: Value) -> str:
    """The value as a problem names it."""
    if isinstance(value, Map):
        return "a mapping"
    if isinstance(value, List):
        return "a list"
    if value.value is None:
        return "nothing"
    return quoted(value.text) if value.text or value.value == "" else _as_json(value.value)


def decoded(value: object, depth: int = MOST_DEPTH) -> Value:
    """What a JSON decoder gave, as values without lines; raises InvalidValue."""
    if not depth:
        raise InvalidValue(value, f"nested too deeply: at most {MOST_DEPTH} levels are allowed")
    if isinstance(value, str):
        return Scalar(0, value, value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise InvalidValue(value, "must have text as keys")
        return Map(0, {key: decoded(item, depth - 1) for key, item in value.items()}, dict.fromkeys(value, 0))
    if isinstance(value, list):
        return List(0, [decoded(item, depth - 1) for item in value])
    if value is None or isinstance(value, bool | int | float):
        return Scalar(0, value, "")
    raise InvalidValue(value, "must be what JSON can say: text, a number, true, false, null, a list or a mapping")


def _as_json(value: Plain) -> str:
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER * 4:
        return "a number too long to print"
    return str(value)


_RESOLVER = Resolver()
_CONSTRUCTOR = SafeConstructor()
_CONSTRUCT = {
    f"{TAG}bool": _CONSTRUCTOR.construct_yaml_bool,
    f"{TAG}int": _CONSTRUCTOR.construct_yaml_int,
    f"{TAG}float": _CONSTRUCTOR.construct_yaml_float,
    f"{TAG}null": _CONSTRUCTOR.construct_yaml_null,
}


@lru_cache(maxsize=1 << 14)
def resolved(text: str) -> Plain:
    """What YAML 1.1 makes of a plain scalar."""
    if len(text) > _LONGEST_NUMBER or ":" in text:
        return text
    tag = _RESOLVER.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    construct = _CONSTRUCT.get(tag)
    if construct is None:
        return text
    try:
        return cast(Plain, construct(ScalarNode(tag, text)))
    except ValueError:  # "0x_" looks like a number and is none
        return text
