"""`muster schema`: the JSON Schema of a kind of file."""

from __future__ import annotations

import json
import sys

from muster.documents.jobs.schema import job_schema

_SCHEMAS = {"job": job_schema}


def run(what: str) -> int:
    """Print the schema; the exit code."""
    sys.stdout.write(printed(what))
    return 0


def printed(what: str) -> str:
    """The schema as it is printed, and kept in docs/."""
    return json.dumps(_SCHEMAS[what](), indent=2, ensure_ascii=False) + "\n"
