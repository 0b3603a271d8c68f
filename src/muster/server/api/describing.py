"""What OpenAPI says of bodies that FastAPI does not read: jobs (as in job files) and calls of agents.

Both are read by the thousands, so their readers are our own; their schemas are made of those readers' tables.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI

from muster.agent.protocol import Answer, Call
from muster.documents.jobs.schema import job_schema

SCHEMAS = "#/components/schemas/"

SUBMISSION = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["jobs"],
                    "additionalProperties": False,
                    "properties": {
                        "jobs": {"type": "array", "minItems": 1, "items": {"$ref": f"{SCHEMAS}JobFile_job"}}
                    },
                }
            }
        },
    }
}

CALL = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}Agent_Call"}}}},
    "responses": {
        "200": {
            "description": "What the agent is to start and stop",
            "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}Agent_Answer"}}},
        }
    },
}


def describe(app: FastAPI) -> None:
    """Have the app's OpenAPI document say what its own readers take."""
    made = app.openapi

    @cache
    def document() -> dict[str, Any]:
        told = made()
        told["components"]["schemas"] |= {**_jobs(), **_protocol()}
        for answer in (
            it for path in told["paths"].values() for how in path.values() for it in how["responses"].values()
        ):
            _say_errors_are_json(answer)
        return told

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way


def _jobs() -> dict[str, Any]:
    """A job of a submission, with the parts its schema refers to."""
    text = json.dumps(job_schema()["$defs"]).replace('"#/$defs/', f'"{SCHEMAS}JobFile_')
    return {f"JobFile_{name}": schema for name, schema in json.loads(text).items()}


def _protocol() -> dict[str, Any]:
    """What agents and the server say to each other."""
    _, parts = msgspec.json.schema_components((Call, Answer), ref_template=SCHEMAS + "Agent_{name}")
    return {f"Agent_{name}": schema for name, schema in parts.items()}


def _say_errors_are_json(answer: dict[str, Any]) -> None:
    """Errors are JSON also where good news is text or a stream."""
    for kind, content in list(answer.get("content", {}).items()):
        if content.get("schema") == {"$ref": f"{SCHEMAS}Error"} and kind != "application/json":
            answer["content"]["application/json"] = answer["content"].pop(kind)
