"""Arrays: one job for each of some indices, which `0-99`, `0-9,20,30-40` or `0-99:10` names.

The job of index 7 is called `name-7` and finds its index in the environment variable MUSTER_ARRAY_INDEX. Nothing else
in a job file changes with the index: there is no placeholder for it.
"""

from __future__ import annotations

import re

from muster.documents.fields import Fields
from muster.documents.scalars import MOST_NAME, text_of
from muster.documents.shapes import Schema, integer, said
from muster.model.errors import InvalidValue

INDEX_VARIABLE = "MUSTER_ARRAY_INDEX"
MOST_INDEX = 999_999
MOST_INDICES = 100_000
MOST_ARRAY_NAME = MOST_NAME - len(f"-{MOST_INDEX}")

ARRAY = f"indices from 0 to {MOST_INDEX} such as 0-99, 0-9,20,30-40 or 0-99:10, at most {MOST_INDICES} of them"

_PART = r"(0|[1-9][0-9]{0,5})(-(0|[1-9][0-9]{0,5})(:[1-9][0-9]{0,5})?)?"
_ARRAY = re.compile(rf"{_PART}(,{_PART})*")
_LONGEST = 10_000

SCHEMA: dict[str, Schema] = {
    "count": said(integer(1, MOST_INDICES), "So many jobs, called name-0, name-1 …; short for an array from 0."),
    "array": said(
        {"type": "string", "pattern": f"^{_ARRAY.pattern}$", "maxLength": _LONGEST},
        f"One job per index, called name-INDEX, with the index in {INDEX_VARIABLE}: A, A-B or A-B:STEP, with commas.",
        examples=["0-99", "0-9,20,30-40", "0-99:10"],
    ),
}


def parse_array(text: str) -> tuple[int, ...]:
    """The indices that are named, each once, in order; raises InvalidValue."""
    if len(text) > _LONGEST or not _ARRAY.fullmatch(text):
        raise InvalidValue(text, ARRAY, "array")
    indices: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        if last and int(last) < int(first):
            raise InvalidValue(text, f"{ARRAY}; {span} ends before it begins", "array")
        indices.update(range(int(first), int(last or first) + 1, int(step or 1)))
    if len(indices) > MOST_INDICES:
        raise InvalidValue(text, ARRAY, "array")
    return tuple(sorted(indices))


def read_indices(fields: Fields, name: str | None) -> tuple[int, ...] | None:
    """The keys `count` and `array` of a job of that name; None: it is one job without an index."""
    count = fields.optional_integer("count", 1, MOST_INDICES)
    indices = _read_array(fields)
    if not fields.has("count") and not fields.has("array"):
        return None
    if fields.has("count") and fields.has("array"):
        fields.add("count", "count and array exclude each other: give one of them")
    if not fields.has("name"):
        fields.missing("name", "a name that each index is appended to")
    elif name is not None and len(name) > MOST_ARRAY_NAME:
        fields.refuse("name", f"with a count or an array, a name of at most {MOST_ARRAY_NAME} characters")
    return tuple(range(count)) if count is not None else indices


def _read_array(fields: Fields) -> tuple[int, ...] | None:
    value = fields.get("array")
    if value is None:
        return None
    try:
        return parse_array(text_of(value) or "")
    except InvalidValue as err:
        fields.refuse("array", err.allowed)
        return None
