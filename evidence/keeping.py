"""Outcomes on disk, outside git: what was run once for these very sources is not run again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from evidence.experiment import Outcome

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "evidence"
_DECIDE = ("model", "engine", "state", "sim")  # the layers a simulation goes through


@cache
def sources_of(experiment: str) -> str:
    """A hash of all code that an experiment's outcomes depend on."""
    files = [path for layer in _DECIDE for path in (ROOT / "src" / "muster" / layer).rglob("*.py")]
    files += [path for path in (ROOT / "evidence").rglob("*.py") if _matters(path, experiment)]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _matters(path: Path, experiment: str) -> bool:
    """Modules called e1_… belong to one experiment, all others to each; what writes chapters changes no outcome."""
    name = path.stem
    is_of_one = name[0] == "e" and name[1:2].isdigit()
    return name.startswith(f"{experiment.lower()}_") if is_of_one else name not in {"__main__", "writing", "plots"}


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where the outcomes of one experiment are kept."""

    experiment: str

    def get(self, key: str) -> Outcome | None:
        """What a case came to, if it was run with the present sources."""
        path = self._path(key)
        if not path.exists():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["sources"] != sources_of(self.experiment):
            return None
        table = path.with_suffix(".parquet")
        return Outcome(facts=kept["facts"], table=pq.read_table(table).to_pydict() if table.exists() else {})

    def times(self, keys: Iterable[str]) -> dict[str, float]:
        """The seconds of CPU time that each of these cases took when it was run."""
        paths = {key: self._path(key) for key in keys}
        return {key: json.loads(path.read_text(encoding="utf-8"))["took_s"] for key, path in paths.items()}

    def put(self, key: str, outcome: Outcome, took_s: float) -> None:
        """Keep it, and what it took: the table first, so that what is there is whole."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        if outcome.table:
            pq.write_table(pa.table(dict(outcome.table)), path.with_suffix(".parquet"))
        kept = {"sources": sources_of(self.experiment), "took_s": round(took_s, 1), "facts": dict(outcome.facts)}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        fresh.replace(path)

    def _path(self, key: str) -> Path:
        return KEPT / self.experiment / f"{key}.json"
