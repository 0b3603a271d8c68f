"""One thread that writes for everybody.

Batches that wait while a transaction is on its way go into the next one together, in their order, so that a flush to
disk is shared by all who came meanwhile. If such a transaction is refused, each of its batches is written by itself:
only the faulty one fails.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from types import TracebackType

from muster.store.errors import StoreDown
from muster.store.store import Batch, Store

MOST_ROWS = 20_000  # in one transaction: those who come later wait for what is in it

Waiting = tuple[Batch, "Future[int]"]


class Writer:
    """Give it batches; their futures have the number of their last event as soon as they are durable."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._waiting: deque[Waiting] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="muster-store-writer", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> Future[int]:
        """Have a batch written. Its future fails with AlreadyThere, BadBatch or StoreDown; later batches try again."""
        future: Future[int] = Future()
        with self._changed:
            if self._is_closed:
                raise StoreDown("the writer is closed")
            self._waiting.append((batch, future))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Write what waits, then stop. Who puts something afterwards is refused."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while together := self._next():
            self._write([waiting for waiting in together if waiting[1].set_running_or_notify_cancel()])

    def _next(self) -> list[Waiting]:
        """What is written next, in one transaction; nothing when the writer was closed and all is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closed)
            together: list[Waiting] = []
            room = MOST_ROWS
            while self._waiting and (not together or size(self._waiting[0][0]) <= room):
                together.append(self._waiting.popleft())
                room -= size(together[-1][0])
            return together

    def _write(self, together: list[Waiting]) -> None:
        if len(together) > 1:
            try:
                lasts = self.store.write_all([batch for batch, _ in together])
            except StoreDown as err:  # trying each would only let all wait longer
                for _, future in together:
                    future.set_exception(err)
                return
            except Exception:  # one of them is to blame, whatever it is: let it alone fail
                pass
            else:
                for (_, future), last in zip(together, lasts, strict=True):
                    future.set_result(last)
                return
        for batch, future in together:
            self._write_alone(batch, future)

    def _write_alone(self, batch: Batch, future: Future[int]) -> None:
        try:
            future.set_result(self.store.write(batch))
        except Exception as err:  # whoever put it shall hear of it, and the thread shall go on
            future.set_exception(err)


def size(batch: Batch) -> int:
    """About how many rows a batch writes."""
    leases = len(batch.leases) + len(batch.lease_changes)
    return 1 + len(batch.events) + 2 * len(batch.jobs) + len(batch.changes) + leases + len(batch.things)
