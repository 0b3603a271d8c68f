"""A job entry in JSON's values: what YAML calls a number or a switch is text again where text is meant."""

from __future__ import annotations

from typing import Any

from muster.documents.values import List, Map, Scalar, Value, plain

_TEXT = frozenset(
    (
        *("text", "name", "queue", "user", "jobSet", "priorityClass", "level", "onLost", "pool", "cluster", "after"),
        *("array", "command", "args", "workdir", "grace", "kind", "group", "job", "when"),
    )
)
"""Keys whose value is text, or a list of it."""

_TEXTS = frozenset(("nodeSelector", "env", "labels", "annotations"))
"""Keys whose value is a mapping to text."""

_NAMED = frozenset(("clusters", "scalability", "speed"))
"""Keys whose value is a mapping with keys that people choose."""


def as_json(value: Value, key: str = "") -> Any:
    """The value of a key of a job entry."""
    if isinstance(value, Map):
        if key in ("affinity", "podTemplate"):
            return plain(value)
        if key in _TEXTS:
            return {name: as_json(item, "text") for name, item in value.values.items()}
        return {name: as_json(item, "" if key in _NAMED else name) for name, item in value.values.items()}
    if isinstance(value, List):
        return plain(value) if key == "tolerations" else [as_json(item, key) for item in value.items]
    return _as_json(value, key)


def _as_json(scalar: Scalar, key: str) -> Any:
    return scalar.text if key in _TEXT and scalar.value is not None else scalar.value
