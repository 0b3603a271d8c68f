"""Turns become durable, one after the other, while the next one is decided.

At most one waits to be written: whoever decides faster than the store writes waits with the next. A store that is down
is tried again with the same rows, so that turns are in it in the order in which they were decided, without a gap. Where
only the answer was lost the rows are there already, and are not written twice: nobody else writes turns, so the number
of the last one tells.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic

from muster.server.leases import Leases
from muster.server.news import Turned
from muster.server.room import Room
from muster.store.batch import Batch
from muster.store.errors import StoreDown
from muster.store.rows import FINISHED
from muster.store.writer import Writer

log = logging.getLogger(__name__)

TRY_AGAIN_S = 0.5


@dataclass(slots=True)
class Counts:
    """What turns came to, for /metrics."""

    turns: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"decide": 0.0, "write": 0.0})
    actions: Counter[str] = field(default_factory=Counter)


class Settling:
    """Writes turns from the first `put` until `stop`; then `leases`, `room`, `counts` and those who brought news hear
    that they are durable. What goes wrong comes out of the next `put`.
    """

    def __init__(self, writer: Writer, leases: Leases, room: Room, counts: Counts) -> None:
        self._store = writer.store
        self._writer = writer
        self._turns = self._store.last_turn()
        self._leases, self._room, self._counts = leases, room, counts
        self._turned: Turned | None = None
        self._changed = Condition()
        self._is_stopping = False
        self._failure: BaseException | None = None
        self._gives_up = False
        self.is_down = False
        self._thread = Thread(target=self._loop, name="settling", daemon=True)

    def give_up(self) -> None:
        """Do not wait any longer for a store that is down."""
        with self._changed:
            self._gives_up = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End after what was put is written."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def wait(self) -> None:
        """Until all that was put is durable. Raises what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: self._turned is None or self._failure is not None)
            if self._failure is not None:
                raise self._failure

    def put(self, turned: Turned) -> None:
        """Have a turn written, after the one before it. Raises what went wrong with that."""
        with self._changed:
            self.wait()
            if self._thread.ident is None:
                self._thread.start()
            self._turned = turned
            self._changed.notify_all()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._turned is not None or self._is_stopping)
                turned = self._turned
            if turned is None:
                return
            try:
                began = monotonic()
                seq = self._write(turned.batch)
                self._settled(turned, seq, monotonic() - began)
            except BaseException as err:
                for one in turned.news:
                    if not one.done.done():
                        one.done.set_exception(err)
                with self._changed:
                    self._failure = err
                    self._changed.notify_all()
                return
            with self._changed:
                self._turned = None
                self._changed.notify_all()

    def _settled(self, turned: Turned, seq: int, took_s: float) -> None:
        """A turn is durable: whoever waits for it is told."""
        self._counts.turns += 1
        self._counts.seconds["write"] += took_s
        self._leases.settle([*turned.batch.leases, *turned.batch.lease_changes])
        for cluster in turned.lost:  # should one be there after all, it must say what it has and stop that
            self._leases.end_session(cluster)
        self._room.end((it.queue, it.kind) for it in turned.batch.events if it.kind in FINISHED)
        for one in turned.news:
            one.done.set_result(seq)

    def _write(self, batch: Batch) -> int:
        has_turn, may_be_there = batch.turn is not None, False
        while True:
            try:
                if may_be_there and self._store.last_turn() > self._turns:
                    seq = self._store.last_seq()
                else:
                    seq = self._writer.put(batch).result()
            except StoreDown as err:
                may_be_there = has_turn
                if not self.is_down:
                    log.error("the store is down, turns wait for it: %s", err)
                self.is_down = True
                with self._changed:
                    if self._gives_up:
                        raise
                    self._changed.wait(TRY_AGAIN_S)
            else:
                self.is_down = False
                self._turns += has_turn
                return seq
