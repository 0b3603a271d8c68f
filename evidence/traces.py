"""Where the public traces are, and where to get them."""

from __future__ import annotations

import os
from pathlib import Path

from evidence.keeping import ROOT

ORIGINALS = {
    "openb": "github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023; published curves from "
    "github.com/hkust-adsl/kubernetes-scheduler-simulator",
    "philly": "github.com/petuum/adaptdl (as filtered by Pollux); whole: github.com/msr-fiddle/philly-traces",
    "swf": "the Parallel Workloads Archive (KTH-SP2, RICC); github.com/DIR-LAB/deep-batch-scheduler (Lublin); "
    "the public data of the Argonne Leadership Computing Facility (Mira)",
    "pollux": "github.com/petuum/adaptdl, branch osdi21-artifact",
    "gavel": "github.com/stanford-futuredata/gavel",
}


class MissingTrace(Exception):
    """A trace is not on this machine."""


def trace(folder: str, name: str) -> Path:
    """The path of a file of a trace."""
    root = Path(os.environ.get("MUSTER_TRACES", ROOT.parent / "shared" / "traces"))
    path = root / folder / name
    if not path.exists():
        message = f"no {folder}/{name} in {root}: get it from {ORIGINALS[folder]}, and set MUSTER_TRACES to the folder"
        raise MissingTrace(message)
    return path
