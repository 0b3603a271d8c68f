"""The lines of a record: gzipped JSON, one line after the other.

    {"muster": "record", "format": 1, "by": "0.1.0", "facts": true, "types": {…}}    the first line
    ["config", hash, policy]                      the policy from here on
    ["events", at, [event, …]]                    what happened then, in order
    ["actions", [action, …]]                      what the next turn decides, in order
    ["verdicts", {job: verdict, …}]               … and says, where that is not what it said before; null: no more
                                                  without facts: only the reasons of those who wait
                                                  "verdicts": false in the first line: neither these nor heads
    ["heads", {queue: job, …}]                    … and whom each queue offers first, in the same way
    ["turn", now, config hash, wake]              the turn that all this belongs to
    ["end", turns, digest]                        the last line: SHA-256 of all lines before it

Events stand before the turn that knew of them. They begin with an empty world: those before the first turn build the
world in which recording began, its checkpoint. Long lists are several lines, so that no line is long.
Times are milliseconds. Why so: docs/adr/0020-records.md.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from muster.model.events import Event
from muster.model.plan import Action, Plan, Start, Started, Verdict
from muster.model.policy import Policy
from muster.model.reasons import Reason
from muster.state.record.forms import Forms, Schema
from muster.state.record.parts import Json

FORMAT = 1
MOST_IN_LINE = 1000  # values
LONGEST_LINE = 64 << 20  # bytes: a gang of a million tasks fits, what would not fit into memory does not

Line = list[Any]

Said = Verdict | Reason
"""What is recorded of a verdict: all of it, or only the reason."""


class Language:
    """The forms of what stands in the lines of one record."""

    def __init__(self, schema: Schema | None = None) -> None:
        self._forms = Forms(Event, Action, Said, Policy, schema=schema)
        self.event, self.action, self.verdict, self.policy = self._forms.roots

    @property
    def schema(self) -> Schema:
        """The fields and defaults of all types, for the top of a record."""
        return self._forms.schema


def dumps(line: Json) -> bytes:
    """One line, with its end."""
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def config_hash(policy: Json) -> str:
    """Names a configuration by its content."""
    return hashlib.sha256(dumps(policy)).hexdigest()[:16]


def told(plan: Plan, *, with_facts: bool) -> dict[str, Said]:
    """What a plan says beside its actions: the verdicts that those do not tell already, or only the reasons.

    Reasons are there without being asked for; the facts of a verdict are worked out when someone looks.
    """
    if not with_facts:
        return dict(plan.reasons())
    starts = {action.job: action for action in plan.actions if isinstance(action, Start)}
    kept: dict[str, Said] = {}
    for job, verdict in plan.verdicts.items():
        start = starts.get(job)
        if start is None or verdict != Started(cluster=start.cluster, tasks=start.tasks):
            kept[job] = verdict
    return kept
