"""Keeps the last turns, for `muster replay`: what happened and what was decided, in files of a folder.

Turns only note what they did, which they have in hand anyway; a thread of its own writes it down. A record begins with
a checkpoint, made of a copy of the world, so that the oldest can be thrown away when all together are too large.
A writer that falls behind lets turns go and begins anew: recording never holds up a decision. Where there is more than
can be copied in a moment nothing is recorded, and whoever asks is told since when.

Why so: docs/adr/0039-records-of-a-server.md.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import BinaryIO

from muster.model import events as ev
from muster.model.plan import Action, Plan
from muster.model.policy import Policy
from muster.model.snapshot import Snapshot
from muster.state.record import Recorder
from muster.state.record.checkpoint import checkpoint
from muster.state.record.mending import mended
from muster.state.state import State

log = logging.getLogger(__name__)

LEAST_BYTES = 1 << 20  # that all records together may take
_PARTS = 8  # of that size at least
MOST_COPIED = 100_000  # jobs that wait or run, and nodes
MOST_BEHIND = 200_000  # events and actions that wait to be written

FLUSH_S = 0.2  # without a turn
PATIENCE_S = 10.0  # for the writer

_NAME = re.compile(r"turns-([0-9]{6,})\.muster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A record: its name, how large it is, when it was last written to, and whether more comes."""

    name: str
    bytes: int
    changed_s: float
    is_open: bool


@dataclass(slots=True)
class _Noted:
    """What one turn brought; `state`: a copy of the world as it was before, with which a new record begins."""

    state: State | None = None
    events: list[tuple[int, ev.Event]] = field(default_factory=list)
    decided: tuple[int, Sequence[Action], int | None] | None = None

    def __len__(self) -> int:
        return len(self.events) + (0 if self.decided is None else len(self.decided[1]))


class Recording:
    """Listens to one state. Whoever takes turns calls `begin_turn` and `end_turn`, with the world's lock held."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._most_bytes = most_bytes
        self._noted = _Noted()
        self._policy: Policy | None = None
        self._wants_copy = True
        self._is_on = False  # whether turns are noted
        self._behind = 0
        self._lock = Lock()  # of what both threads count
        self._queue: SimpleQueue[_Noted | Event | None] = SimpleQueue()
        self._file: BinaryIO | None = None
        self._recorder: Recorder | None = None
        self._number = max((number for number, _ in self._files()), default=0)
        self._mend()
        self._thread = Thread(target=self._loop, name="recording", daemon=True)
        self._thread.start()

    # -- turns ---------------------------------------------------------------------------------------------

    def begin_turn(self, state: State) -> None:
        """A turn is about to be taken."""
        if self._is_on and not self._wants_copy and state.policy is self._policy:
            return
        self._is_on = _size(state) <= MOST_COPIED and self._behind < MOST_BEHIND // 2
        if self._is_on:
            self._noted.state, self._policy, self._wants_copy = state.fork(), state.policy, False

    def happened(self, event: ev.Event, now_ms: int) -> None:
        """Something is applied to the state."""
        if self._is_on:
            self._noted.events.append((now_ms, event))

    def decided(self, _snapshot: Snapshot, plan: Plan) -> None:
        """A turn was taken; nothing of its plan has been carried out yet."""
        if self._is_on:
            self._hand_over((plan.now_ms, tuple(plan.actions), plan.wake_ms))

    def end_turn(self) -> None:
        """A turn is over."""
        if self._noted.events or self._noted.state is not None:
            self._hand_over(None)

    def _hand_over(self, decided: tuple[int, Sequence[Action], int | None] | None) -> None:
        """Have what was noted written. What comes after a plan is noted anew, as it is written after it."""
        self._noted.decided = decided
        noted, self._noted = self._noted, _Noted()
        with self._lock:
            is_late = self._behind + len(noted) > MOST_BEHIND
            self._behind += 0 if is_late else len(noted)
        if is_late:
            self._is_on = False  # begins anew with the next turn
            return
        self._queue.put(noted)

    # -- whoever asks --------------------------------------------------------------------------------------

    def kept(self) -> list[Kept]:
        """All records, the oldest first, with everything that was decided before this was asked."""
        self._settle()
        open_name = None if self._file is None else f"turns-{self._number:06}.muster"
        found = []
        for _, path in sorted(self._files()):
            about = path.stat()
            found.append(
                Kept(name=path.name, bytes=about.st_size, changed_s=about.st_mtime, is_open=path.name == open_name)
            )
        return found

    def read(self, name: str) -> bytes | None:
        """A record, with an end if it has none yet; None: there is none of that name, or no turn in it."""
        if not _NAME.fullmatch(name):
            return None
        self._settle()
        try:
            return mended((self._folder / name).read_bytes())
        except FileNotFoundError:
            return None

    def _settle(self) -> None:
        done = Event()
        self._queue.put(done)
        done.wait(PATIENCE_S)

    def close(self) -> None:
        """Write what was noted, and end."""
        self._queue.put(None)
        self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------

    def _loop(self) -> None:
        while (it := self._next()) is not None:
            if isinstance(it, Event):
                self._flush()
                it.set()
                continue
            try:
                self._write(it)
            except OSError as err:  # a full disk keeps nobody from deciding
                log.warning("turns cannot be recorded: %s", err)
                self._give_up()
            except Exception:  # a fault of ours, nor does that
                log.exception("turns cannot be recorded")
                self._give_up()
            with self._lock:
                self._behind -= len(it)
        self._end()

    def _next(self) -> _Noted | Event | None:
        """What comes next. While nothing comes, what was written goes to disk: a killed server keeps that."""
        try:
            return self._queue.get(timeout=FLUSH_S)
        except Empty:
            self._flush()
            return self._queue.get()

    def _write(self, noted: _Noted) -> None:
        if noted.state is not None:
            self._begin(noted.state)
        if self._recorder is None:
            return
        for at_ms, event in noted.events:
            self._recorder.happened(event, at_ms)
        if noted.decided is not None:
            self._recorder.decided_before(*noted.decided)
        if self._file is not None and self._file.tell() > self._most_bytes // _PARTS:
            self._wants_copy = True

    def _begin(self, state: State) -> None:
        """A new record, from this world on."""
        self._end()
        self._number += 1
        self._file = (self._folder / f"turns-{self._number:06}.muster").open("wb")
        self._recorder = Recorder(self._file, state.policy, with_facts=False, with_verdicts=False)
        for at_ms, event in checkpoint(state):
            self._recorder.happened(event, at_ms)
        self._forget()

    def _flush(self) -> None:
        if self._recorder is None or self._file is None:
            return
        try:
            self._recorder.flush()
            self._file.flush()
        except OSError as err:
            log.warning("turns cannot be recorded: %s", err)
            self._give_up()

    def _end(self) -> None:
        file, recorder, self._file, self._recorder = self._file, self._recorder, None, None
        if file is not None and recorder is not None:
            try:
                recorder.close()
            finally:
                file.close()

    def _give_up(self) -> None:
        """Begin anew once that is possible."""
        file, self._file, self._recorder = self._file, None, None
        self._wants_copy = True
        if file is not None:
            file.close()

    def _forget(self) -> None:
        """Throw the oldest records away, so that all together are not too large.

        One part is for the record that begins, another for what turns say until the next begins, and what is still
        being compressed.
        """
        files = sorted(self._files())
        total = sum(path.stat().st_size for _, path in files)
        for number, path in files:
            if total <= self._most_bytes - 2 * self._most_bytes // _PARTS or number == self._number:
                return
            total -= path.stat().st_size
            path.unlink()

    def _mend(self) -> None:
        """Records whose server was killed get an end; what has no whole turn goes."""
        for number, path in sorted(self._files()):
            if number != self._number:
                continue  # only the last can be without one
            data = mended(path.read_bytes())
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)

    def _files(self) -> list[tuple[int, Path]]:
        named = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [(int(name[1]), path) for name, path in named if name is not None]


def _size(state: State) -> int:
    waiting = len(state.roll) + len(state.pending) + len(state.held)
    return waiting + len(state.running) + len(state.machines.nodes)
