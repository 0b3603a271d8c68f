"""What can be kept and sent on as it is: text and numbers that JSON, UTF-8 and every database can hold."""

from __future__ import annotations

import math

from muster.documents.values import List, Map, Scalar, Value

STORABLE = "text without null characters and halves of characters, finite numbers of 64 bits"

_INT64 = 1 << 63


def is_storable(text: str) -> bool:
    """Whether the text has no null character, which no process takes, and no half of a character."""
    return "\0" not in text and (text.isascii() or _is_utf8(text))


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def can_be_stored(value: object) -> bool:
    """Whether all that JSON said can be stored."""
    match value:
        case str():
            return is_storable(value)
        case dict():
            return all(can_be_stored(part) for part in (*value, *value.values()))
        case list():
            return all(map(can_be_stored, value))
    return _is_storable_number(value)


def not_storable(value: Value) -> Value | None:
    """The first value in `value` that cannot be stored; None when all can."""
    if isinstance(value, List):
        return next((wrong for item in value.items if (wrong := not_storable(item)) is not None), None)
    if isinstance(value, Map):
        if not all(is_storable(key) for key in value.values):
            return value
        return next((wrong for item in value.values.values() if (wrong := not_storable(item)) is not None), None)
    return None if _is_storable_scalar(value) else value


def _is_storable_scalar(scalar: Scalar) -> bool:
    return is_storable(scalar.value) if isinstance(scalar.value, str) else _is_storable_number(scalar.value)


def _is_storable_number(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case int():
            return -_INT64 <= value < _INT64
    return True
