"""The process that writes for another one: `python -m muster.store.apart_process`, started by muster.store.apart.

It ends when its owner does, at the same instant, however that ends: what a dead server had begun to write must not
appear after the next one has read what there is. Only Linux can promise that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from threading import Lock, Thread

import msgspec

from muster.engine.garbage import collect_seldom
from muster.store.apart import Alone, Answer, Bad, Done, Down, Forget, Left, Refused, Request, There, Together
from muster.store.errors import AlreadyThere, BadBatch, StoreDown
from muster.store.forgetting import Ends
from muster.store.store import Store

_DIES_WITH_PARENT = 1  # of prctl(2): PR_SET_PDEATHSIG
_COLLECTED = 200_000  # objects that came into being: next to none refers back to itself

_encode = msgspec.msgpack.Encoder().encode
_read_request = msgspec.msgpack.Decoder(Request).decode


def _answer(request: Request, store: Callable[[], Store]) -> Answer:
    try:
        match request:
            case Together(batches=batches):
                return Done(store().write_all(batches))
            case Alone(batch=batch):
                return Done([store().write(batch)])
            case Forget(before_ms=before_ms, limit=limit):
                return _left(store(), before_ms, limit)
    except StoreDown as err:
        return Down(str(err))
    except BadBatch as err:
        return Bad(err.value if isinstance(err.value, str | int | None) else repr(err.value), err.allowed, err.field)
    except AlreadyThere as err:
        return There(list(err.ids), list(err.client_ids))
    except Exception as err:  # whoever asked shall hear of it, and others go on
        return Refused(f"{type(err).__name__}: {err}")


def _left(store: Store, before_ms: int, limit: int) -> Left:
    ends: Ends = Counter()
    rows, down = 0, ""
    try:
        rows = store.forget(before_ms, limit, ends=ends)
    except StoreDown as err:  # what left has left
        down = str(err)
    return Left(rows, [(queue, state, many) for (queue, state), many in ends.items()], down)


class _Opened:
    """The store, as soon as it can be opened."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._store: Store | None = None

    def at(self, url: str) -> Store:
        with self._lock:
            if self._store is None:
                self._store = Store.open(url, upgrade=False)
            return self._store


def _serve(connection: Connection, opened: _Opened) -> None:
    try:
        url = connection.recv_bytes().decode()
        while True:
            request = _read_request(connection.recv_bytes())
            connection.send_bytes(_encode(_answer(request, lambda: opened.at(url))))
    except (EOFError, OSError):
        return  # nobody asks any more


def _main(owner: int, *lines: int) -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != owner:
        return  # it died before that was said
    collect_seldom(_COLLECTED)
    opened = _Opened()
    threads = [Thread(target=_serve, args=(Connection(line), opened)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
