"""What people choose when they read a trace; apart from the readers, so that the command line need not load them."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The formats of public traces that `muster simulate` reads."""

    SWF = "swf"
    PHILLY = "philly"


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
