"""What one value of a document means: a name, a number, a duration, a resource."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from muster.documents.problems import Problems
from muster.documents.values import Plain, Scalar, Value, shown
from muster.model.resources import CPU, GPU, MEMORY, PODS, parse_amount

MICRO = 1_000_000
SECOND_MS = 1000
LONGEST_MS = 100 * 365 * 24 * 3600 * SECOND_MS  # 100 years
MOST_NAME = 253
INT32 = (1 << 31) - 1

DURATION = "a duration of up to 100 years such as 30s, 10m, 2h, 1d or a number of seconds, to the millisecond"
NAME = f"a name of at most {MOST_NAME} letters, digits, '.', '_' and '-' that begins and ends with a letter or digit"

TASK_RESOURCES = {
    "cpu": CPU,
    "memory": MEMORY,
    "gpu": GPU,
    "ephemeral-storage": "ephemeral-storage",
    "storage": "storage",
}
NODE_RESOURCES = {**TASK_RESOURCES, "pods": PODS}
ANY_EXTENDED = "any resource with a slash such as example.com/fpga"

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_EXTENDED = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST = 64  # characters of a number

# The same, for JSON Schema.
NAME_PATTERN = f"^{_NAME.pattern}$"
DURATION_PATTERN = f"^({_DURATION.pattern}|{_NUMBER.pattern})$"
NUMBER_PATTERN = f"^{_NUMBER.pattern}$"
EXTENDED_PATTERN = f"^{_EXTENDED.pattern}$"
LONGEST_NUMBER = _LONGEST
_REMEMBERED = 1 << 12  # durations and amounts: a file says the same few again and again


def resource_name(key: str, known: Mapping[str, str] = NODE_RESOURCES) -> str | None:
    """The resource a key stands for; None when it stands for none."""
    if key in known:
        return known[key]
    return key if "/" in key and len(key) <= MOST_NAME and _EXTENDED.fullmatch(key) else None


def is_name(text: str) -> bool:
    """Whether the text may be a name."""
    return len(text) <= MOST_NAME and _NAME.fullmatch(text) is not None


def text_of(value: Value | None) -> str | None:
    """The value as text, just as it was written; None when it is none. In JSON, numbers are not text."""
    if not isinstance(value, Scalar) or value.value is None:
        return None
    return value.text if value.text or value.value == "" else None


def as_name(value: Value, path: str, problems: Problems, allowed: str = NAME) -> str | None:
    """The value as a name, just as it was written: `name: 7` and `queue: on` are names."""
    text = text_of(value)
    if text is not None and is_name(text):
        return text
    is_json_number = text is None and isinstance(value, Scalar) and value.value is not None
    problems.refuse(path, value.line, shown(value), f"in quotes, {allowed}" if is_json_number else allowed)
    return None


def milliseconds(value: Value) -> int | None:
    """The duration that was written; None when it is none, or finer than a millisecond."""
    return _milliseconds(value.value, value.text) if isinstance(value, Scalar) else None


def milliseconds_in(text: str) -> int | None:
    """The duration that someone typed, with its unit; None when it is none."""
    return _milliseconds(text, text)


@lru_cache(maxsize=_REMEMBERED, typed=True)
def _milliseconds(value: Plain, text: str) -> int | None:
    match = _DURATION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is not None:
        ms = Fraction(match[1]) * _UNITS_MS[match[2]]
    elif (seconds := _number(value)) is not None:
        ms = seconds * SECOND_MS
    else:
        return None
    return ms.numerator if ms.denominator == 1 else None


def number_of(value: Value) -> Fraction | None:
    """The exact number that was written; None when it is none."""
    return _number(value.value) if isinstance(value, Scalar) else None


def _number(value: Plain) -> Fraction | None:
    match value:
        case bool() | None:
            return None
        case int():
            return Fraction(value)
        case float():
            # repr is the shortest text that means this float: what the person wrote.
            return Fraction(repr(value)) if math.isfinite(value) else None
        case str() if len(value) <= _LONGEST and _NUMBER.fullmatch(value):
            return Fraction(value)
    return None


def amount_of(name: str, value: Value) -> int:
    """The base units of resource `name` that were written; raises InvalidValue."""
    return _amount(name, value.value if isinstance(value, Scalar) else None)


_amount = lru_cache(maxsize=_REMEMBERED, typed=True)(parse_amount)


def quantity_of(name: str) -> str:
    """What an amount of this resource looks like."""
    if name == PODS or "/" in name:
        return "a whole number >= 0"
    return f"a Kubernetes quantity >= 0 such as {'500m or 2' if name == CPU else '512Mi or 4Gi'}"


def is_nothing(value: Value) -> bool:
    """Whether a key was given without a value."""
    return isinstance(value, Scalar) and value.value is None
