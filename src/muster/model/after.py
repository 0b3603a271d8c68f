"""What a job comes after: other jobs, and how these must end."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class When(Enum):
    """How a job must end so that another may start after it. A job that was cancelled has not failed."""

    OK = "ok"
    ANY = "any"
    FAILED = "failed"

    def is_met_by(self, end: str) -> bool:
        """Whether that is an end it asks for: succeeded, failed or cancelled."""
        return self is When.ANY or end == _ENDS[self]


_ENDS = {When.OK: "succeeded", When.FAILED: "failed"}


class After(NamedTuple):
    """A job that another comes after."""

    job: str
    when: When = When.OK

    @property
    def told(self) -> str:
        """As people are told of it: `prep`, `prep (any)`."""
        return self.job if self.when is When.OK else f"{self.job} ({self.when.value})"

    def never(self, end: str) -> str:
        """Why whoever comes after that job will never start, now that it ended so."""
        ended = "was cancelled" if end == "cancelled" else end
        return f"it was to start after {self.job} {_ENDS[self.when]}, but {self.job} {ended}"
