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
    match scalar.value:
        case str():
            return is_storable(scalar.value)
        case float():
            return math.isfinite(scalar.value)
        case int():
            return -_INT64 <= scalar.value < _INT64
    return True
