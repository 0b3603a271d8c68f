"""What people choose when they read a trace; apart from the readers, so that the command line need not load them."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The formats of public traces that `muster simulate` reads."""

    SWF = "swf"
    PHILLY = "philly"
    OPENB = "openb"
    POLLUX = "pollux"
    GAVEL = "gavel"


class QueueBy(StrEnum):
    """What makes a queue: everyone in one, or one per user, group or queue of the log."""

    ONE = "one"
    USER = "user"
    GROUP = "group"
    QUEUE = "queue"


class Expected(StrEnum):
    """What the scheduler is told about run times."""

    REQUESTED = "requested"
    EXACT = "exact"
    UNKNOWN = "unknown"


OPTIONS = {
    "path": "--trace",
    "format": "--format",
    "nodes": "--nodes",
    "measured": "--measured",
    "queue_by": "--queue-by",
    "expected": "--expected",
    "most_jobs": "--jobs",
    "repeat_to": "--repeat-to",
}
"""How people say each field of a Trace."""
