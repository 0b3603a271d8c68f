"""Who waits for news is woken when something became durable: by this process at once, by others through PostgreSQL.

Readers tail by number: a wake-up only says "look again", so one that comes too often or names too low a number does
no harm. While the listening connection is down nobody is woken from outside; every wait ends with a look at the
database anyway.
"""

from __future__ import annotations

import selectors
import socket
import threading
from typing import Any

import sqlalchemy as sa

from muster.store.writing import CHANNEL

RETRY_S = 1.0


class Bell:
    """The newest number known to be durable, and those who wait for a higher one."""

    def __init__(self) -> None:
        self._rung = threading.Condition()
        self._seq = 0
        self._is_closed = False

    @property
    def newest(self) -> int:
        """The newest number it was rung for; 0 before the first."""
        return self._seq

    def ring(self, seq: int) -> None:
        """Events up to `seq` are durable."""
        with self._rung:
            if seq > self._seq:
                self._seq = seq
                self._rung.notify_all()

    def wait(self, after: int, timeout_s: float) -> int | None:
        """The newest number once it is higher than `after`; None if the time was over or the bell was closed before."""
        with self._rung:
            self._rung.wait_for(lambda: self._seq > after or self._is_closed, timeout_s)
            return self._seq if self._seq > after else None

    def close(self) -> None:
        """Let everybody go."""
        with self._rung:
            self._is_closed = True
            self._rung.notify_all()


class Listener:
    """A thread with a connection of its own that rings the bell for what other processes write."""

    def __init__(self, engine: sa.Engine, bell: Bell) -> None:
        self._engine = engine
        self._bell = bell
        self._is_closed = threading.Event()
        self._stop, self._stopped = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="muster-store-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; returns when the thread has ended."""
        self._is_closed.set()
        self._stop.send(b".")
        self._thread.join()
        self._stop.close()
        self._stopped.close()

    def _run(self) -> None:
        import psycopg

        while not self._is_closed.is_set():
            try:
                with self._engine.connect() as connection:
                    driver = connection.connection.driver_connection
                    connection.detach()  # it stays out of the pool: nobody else may get a connection that listens
                    self._listen(driver)
            except (sa.exc.SQLAlchemyError, psycopg.Error):
                self._is_closed.wait(RETRY_S)

    def _listen(self, connection: Any) -> None:
        connection.rollback()
        connection.autocommit = True
        connection.execute(f"LISTEN {CHANNEL}")
        (seq,) = connection.execute("SELECT event FROM counter").fetchone()
        self._bell.ring(seq)  # what was written while nobody listened
        with selectors.DefaultSelector() as something:
            something.register(connection, selectors.EVENT_READ)
            something.register(self._stopped, selectors.EVENT_READ)
            while not self._is_closed.is_set():
                for notice in connection.notifies(timeout=0):
                    self._bell.ring(int(notice.payload))
                something.select()
