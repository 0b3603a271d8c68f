"""Writes down a world while it runs: give one to a `Run` as its listener.

Costs nothing where nobody listens. What is written is what happened: a record that was closed early is a whole record
of the turns until then.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import BinaryIO, TypeVar

from muster import __version__
from muster.model.events import Event
from muster.model.plan import Action, Plan
from muster.model.policy import Policy
from muster.model.snapshot import Snapshot
from muster.state.record.lines import FORMAT, MOST_IN_LINE, Language, Said, config_hash, dumps, told
from muster.state.record.parts import Form, Json

_T = TypeVar("_T")


class Recorder:
    """Hears every event and every plan, and writes them to an open file. Close it, or the record has no end.

    `with_facts`: verdicts in full, which must be worked out for it; else only their reasons, which costs little. With
    no verdicts at all only what is done counts, and turns may be written down later (`decided_before`).
    """

    def __init__(self, file: BinaryIO, policy: Policy, *, with_facts: bool = True, with_verdicts: bool = True) -> None:
        self._with_facts = with_facts
        self._with_verdicts = with_verdicts
        # No time and no name in the file: the same turns give the same bytes.
        self._file = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0)
        self._digest = hashlib.sha256()
        self._language = Language()
        self._at_ms = 0
        self._events: list[Event] = []
        self._policy: Policy | None = None
        self._config = ""
        self._verdicts: dict[str, Said] = {}
        self._heads: dict[str, str] = {}
        self.turns = 0
        about: dict[str, Json] = {"muster": "record", "format": FORMAT, "by": __version__, "facts": with_facts}
        if not with_verdicts:
            about["verdicts"] = False
        self._write({**about, "types": self._language.schema})
        self._configure(policy)

    def happened(self, event: Event, now_ms: int) -> None:
        """Something is applied to the state."""
        if now_ms != self._at_ms or len(self._events) == MOST_IN_LINE:
            self._flush()
            self._at_ms = now_ms
        self._events.append(event)

    def decided(self, snapshot: Snapshot, plan: Plan) -> None:
        """A turn was taken; nothing of its plan has been carried out yet."""
        self._flush()
        self._configure(snapshot.policy)
        self._act(plan.actions)
        if self._with_verdicts:
            self._say(plan)
        self._turn(plan.now_ms, plan.wake_ms)

    def decided_before(self, now_ms: int, actions: Iterable[Action], wake_ms: int | None) -> None:
        """A turn was taken that did this, under the policy of before."""
        self._flush()
        self._act(actions)
        self._turn(now_ms, wake_ms)

    def _act(self, actions: Iterable[Action]) -> None:
        for part in _in_lines(actions):
            self._write(["actions", [self._language.action.write(action) for action in part]])

    def _say(self, plan: Plan) -> None:
        """What a plan says of jobs that it does nothing about."""
        verdicts, heads = told(plan, with_facts=self._with_facts), dict(plan.heads)
        self._write_news("verdicts", self._verdicts, verdicts, self._language.verdict)
        self._write_news("heads", self._heads, heads, None)
        self._verdicts, self._heads = verdicts, heads

    def _turn(self, now_ms: int, wake_ms: int | None) -> None:
        self._write(["turn", now_ms, self._config, wake_ms])
        self.turns += 1

    def flush(self) -> None:
        """All turns so far are in the file, whatever becomes of the process."""
        self._file.flush()

    def close(self) -> None:
        """Nothing more will come."""
        if not self._file.closed:
            self._flush()
            self._end()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, at: TracebackType | None) -> None:
        # After an error (an interruption, say) what was not written yet may be half a thing; the turns before it stay.
        if err is None:
            self.close()
        elif not self._file.closed:
            self._end()

    def _end(self) -> None:
        self._write(["end", self.turns, self._digest.hexdigest()])
        self._file.close()

    def _configure(self, policy: Policy) -> None:
        if policy is self._policy:
            return
        self._policy, written = policy, self._language.policy.write(policy)
        if (config := config_hash(written)) != self._config:
            self._config = config
            self._write(["config", config, written])

    def _write_news(self, kind: str, before: Mapping[str, _T], now: Mapping[str, _T], form: Form | None) -> None:
        """What is another than before, and what is no more."""
        news: dict[str, Json] = {name: None for name in before if name not in now}
        for name, value in now.items():
            if name not in before or before[name] != value:
                news[name] = value if form is None else form.write(value)
        for part in _in_lines(news.items()):
            self._write([kind, dict(part)])

    def _flush(self) -> None:
        if self._events:
            self._write(["events", self._at_ms, [self._language.event.write(event) for event in self._events]])
            self._events = []

    def _write(self, line: Json) -> None:
        data = dumps(line)
        self._digest.update(data)
        self._file.write(data)


def _in_lines(values: Iterable[_T]) -> Iterable[list[_T]]:
    """The values in parts that make a line each."""
    rest = iter(values)
    while part := list(islice(rest, MOST_IN_LINE)):
        yield part
