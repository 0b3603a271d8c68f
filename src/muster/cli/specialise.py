"""`muster specialise`: a job file for several clusters in, the job that one of them gets out."""

from __future__ import annotations

import json
import sys

from muster.documents.problems import DocumentError
from muster.model.errors import InvalidValue
from muster.openpai.jobfile import load
from muster.openpai.specialise import specialise
from muster.openpai.writing import to_yaml

BAD_INPUT = 2


def run(file: str, cluster: str, output: str) -> int:
    """Print the job that the cluster gets; the exit code."""
    try:
        job = specialise(load(file), cluster)
    except DocumentError as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    except InvalidValue as err:
        print(f"--{err}", file=sys.stderr)
        return BAD_INPUT
    print(
        to_yaml(job) if output == "yaml" else json.dumps(job, ensure_ascii=False, indent=2),
        end="\n" * (output == "json"),
    )
    return 0
