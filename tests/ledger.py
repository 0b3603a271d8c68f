"""What agents wrote down outside of Muster, and what must hold: every job ended well once, no attempt began twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ledger:
    """Attempts as (job, number), as often as they began; jobs, as often as they succeeded."""

    began: Counter[tuple[str, int]]
    succeeded: Counter[str]

    @classmethod
    def read(cls, *paths: Path) -> Ledger:
        """The lines of these files; one that was cut off in the middle told nobody anything."""
        texts = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line[-1:] == "]"]
        lines = [json.loads(text) for text in texts]
        return cls(
            began=Counter((job, attempt) for what, job, attempt, _ in lines if what == "began"),
            succeeded=Counter(job for what, job, _, result in lines if (what, result) == ("ended", "succeeded")),
        )

    @property
    def began_twice(self) -> set[tuple[str, int]]:
        """Attempts that should have begun once."""
        return {attempt for attempt, times in self.began.items() if times > 1}

    def check_each_once(self, acknowledged: Iterable[str]) -> None:
        """Every job that was acknowledged succeeded once, and none of its attempts began twice."""
        assert self.began_twice == set()
        assert self.succeeded == Counter(acknowledged)
