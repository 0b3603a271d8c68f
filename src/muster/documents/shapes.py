"""How the values that people write look, as JSON Schema: each beside the reader of muster.documents.fields of its name.

A schema cannot say everything that readers check (that a duration is whole milliseconds, that min is not above max),
but it never refuses what they take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.documents.scalars import (
    DURATION_PATTERN,
    EXTENDED_PATTERN,
    LONGEST_MS,
    LONGEST_NUMBER,
    MOST_NAME,
    NAME_PATTERN,
    NUMBER_PATTERN,
    SECOND_MS,
    TASK_RESOURCES,
)
from muster.model import quantity

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "pattern": NAME_PATTERN, "maxLength": MOST_NAME}
SWITCH: Schema = {"enum": [True, False, "on", "off", "true", "false"]}
TEXT: Schema = {"type": "string"}
DURATION: Schema = {
    "type": ["string", "number"],
    "pattern": DURATION_PATTERN,
    "maxLength": LONGEST_NUMBER,
    "minimum": 0,
    "maximum": LONGEST_MS // SECOND_MS,
}
QUANTITY: Schema = {
    "type": ["string", "number"],
    "pattern": quantity.PATTERN,
    "maxLength": quantity.LONGEST,
    "minimum": 0,
    "exclusiveMaximum": quantity.LIMIT,
}


def integer(least: int, most: int) -> Schema:
    """A whole number in a range."""
    return {"type": "integer", "minimum": least, "maximum": most}


def number(most: int) -> Schema:
    """A number above 0, which may be written as text."""
    return {
        "type": ["number", "string"],
        "pattern": NUMBER_PATTERN,
        "maxLength": LONGEST_NUMBER,
        "exclusiveMinimum": 0,
        "maximum": most,
    }


def choice(words: Iterable[str]) -> Schema:
    """One of a few words."""
    return {"enum": list(words)}


def mapping(
    keys: Mapping[str, Schema], *, patterns: Mapping[str, Schema] | None = None, required: Iterable[str] = ()
) -> Schema:
    """A mapping with these keys and no others."""
    schema: Schema = {"type": "object", "properties": dict(keys), "additionalProperties": False}
    if patterns:
        schema["patternProperties"] = dict(patterns)
    if required:
        schema["required"] = list(required)
    return schema


def mapping_of(each: Schema, *, keys: Schema | None = None) -> Schema:
    """A mapping whose keys are names of one kind; nothing at all is none."""
    schema: Schema = {"type": ["object", "null"], "additionalProperties": each}
    return schema if keys is None else {**schema, "propertyNames": keys}


def list_of(each: Schema, *, least: int = 0, most: int | None = None) -> Schema:
    """A list; nothing at all is an empty one."""
    schema: Schema = {"type": "array" if least else ["array", "null"], "items": each}
    if least:
        schema["minItems"] = least
    return schema if most is None else {**schema, "maxItems": most}


def said(schema: Schema, meaning: str, **more: Any) -> Schema:
    """The schema with what it means, and with a default or examples."""
    return {**schema, "description": meaning, **more}


AMOUNTS: dict[str, Schema] = {name: {"$ref": "#/$defs/quantity"} for name in TASK_RESOURCES}
EXTENDED: dict[str, Schema] = {EXTENDED_PATTERN: {"$ref": "#/$defs/quantity"}}
