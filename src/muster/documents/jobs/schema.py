"""The JSON Schema of job files, put together of what the readers' modules say about their keys.

Printed by `muster schema job`, kept in docs/job.schema.json.
"""

from __future__ import annotations

from muster.documents.jobs import arrays, launch, objects, races
from muster.documents.jobs.entry import PLACE_KEYS
from muster.documents.jobs.groups import GROUP_KEYS, TASK_KEYS
from muster.documents.jobs.reading import FILE_KEYS
from muster.documents.shapes import (
    AMOUNTS,
    EXTENDED,
    NAME,
    QUANTITY,
    Schema,
    mapping,
    said,
)

_ABOUT_TASKS = {**AMOUNTS, **TASK_KEYS, **launch.SCHEMA}


def job_schema() -> Schema:
    """The schema of a job file: one job, a list of jobs, or {jobs: [...]}."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Muster job file",
        "description": "One job, a list of jobs, or {jobs: [...]}.",
        "if": {"type": "array"},
        "then": {"$ref": "#/$defs/jobs"},
        "else": {
            "if": {"type": "object", "required": ["jobs"]},
            "then": mapping({"jobs": {"oneOf": [{"$ref": "#/$defs/jobs"}, {"$ref": "#/$defs/job"}]}}),
            "else": {"$ref": "#/$defs/job"},
        },
        "$defs": {
            "jobs": {"type": "array", "items": {"$ref": "#/$defs/job"}},
            "job": _job(),
            "group": _group(),
            "race": _race(),
            "quantity": said(QUANTITY, "A Kubernetes quantity: 500m or 2 cores, 4Gi of memory; GPUs come whole."),
        },
    }


def _job() -> Schema:
    keys = {
        "name": said(NAME, "What people call it.", examples=["train"]),
        **arrays.SCHEMA,
        **{key.name: key.schema for key in FILE_KEYS},
        **PLACE_KEYS,
        "race": {"$ref": "#/$defs/race"},
        "groups": said(
            {"type": "array", "items": {"$ref": "#/$defs/group"}, "minItems": 1},
            "Its task groups. Absent: one group called main with one task, which the job's own keys describe.",
        ),
        "objects": objects.SCHEMA,
    }
    in_groups = [key for key in _ABOUT_TASKS if key not in AMOUNTS]
    return {
        **mapping({**keys, **_ABOUT_TASKS}, patterns=EXTENDED),
        **launch.DEPENDENT,
        "allOf": [
            {"not": {"required": [key, other]}}
            for key, other in (("count", "array"), ("cluster", "clusters"), ("race", "cluster"), ("race", "clusters"))
        ]
        + [{"if": {"anyOf": [{"required": ["count"]}, {"required": ["array"]}]}, "then": {"required": ["name"]}}]
        + [
            {
                "if": {"required": ["groups"]},
                "then": {
                    "properties": dict.fromkeys([*AMOUNTS, *in_groups], False),
                    "patternProperties": dict.fromkeys(EXTENDED, False),
                },
            }
        ],
    }


def _group() -> Schema:
    return {
        **mapping({**GROUP_KEYS, **_ABOUT_TASKS}, patterns=EXTENDED, required=("name",)),
        **launch.DEPENDENT,
        "allOf": [{"not": {"required": ["count", key]}} for key in ("min", "initial", "max")],
    }


def _race() -> Schema:
    rival = {**mapping(races.RIVAL_KEYS, patterns=EXTENDED), "type": ["object", "null"]}
    clusters = {
        "type": "object",
        "additionalProperties": rival,
        "propertyNames": NAME,
        "minProperties": 1,
        "maxProperties": races.MOST_RIVALS,
    }
    about = said(clusters, "The opaque clusters that it is sent to.", examples=[{"v100": {"priority": 80}}])
    keys = mapping({**races.RACE_KEYS, "clusters": about}, required=("clusters",))
    return said(keys, "The job is sent to several opaque clusters, and the best that runs it wins.")
