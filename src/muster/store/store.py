"""One interface to both kinds of database.

Blocking, and safe to call from several threads. Writing is one transaction a call, durable when it returns; whoever
writes often should go through a Writer, which puts several batches into one.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL

from muster.store import reading, schema
from muster.store.apart import IS_POSSIBLE, Apart
from muster.store.backup import backup
from muster.store.batch import Batch
from muster.store.checking import problems
from muster.store.connecting import as_given, engine_for, read_url, shown
from muster.store.connecting import reading as connected
from muster.store.connecting import writing as transaction
from muster.store.errors import BadBatch, NewerSchema, OlderSchema, StoreDown
from muster.store.forgetting import STEPS, Ends
from muster.store.rows import AuditRow, Body, EventRow, JobPage, JobQuery, JobRow, LeaseRow, Thing, TurnRow
from muster.store.tables import LEADER, SCHEMA
from muster.store.waking import Bell, Listener
from muster.store.writing import refused, write_all

__all__ = ["Batch", "Store"]

ANY = JobQuery()


class Store:
    """What a server must not forget. Open it with `Store.open`, close it when done."""

    def __init__(self, engine: sa.Engine, url: URL) -> None:
        self._engine = engine
        self._url = url
        self._bell = Bell()
        self._listener: Listener | None = None
        self._is_closed = False
        self._opening = threading.Lock()
        self._apart: Apart | None = None
        if not self.is_embedded:
            sa.event.listen(engine, "checkin", self._let_go)
        # SQLite has one writer. Waiting in line here is fair and wakes at once; waiting inside SQLite is neither.
        self._line: AbstractContextManager[object] = threading.Lock() if self.is_embedded else nullcontext()

    @classmethod
    def open(cls, url: str, *, upgrade: bool = True) -> Store:
        """Open a database: sqlite:///path or postgresql://…; it gets the newest schema if it has an older one.

        Raises NewerSchema if it was written by a newer Muster; OlderSchema if it is older and `upgrade` is off.
        """
        read = read_url(url)
        if not upgrade and read.get_backend_name() == "sqlite" and not Path(read.database or "").exists():
            raise StoreDown(f"there is no database at {read.database}")
        engine = engine_for(read)
        try:
            if upgrade:
                schema.upgrade(engine)
            else:
                _require_newest(engine)
        except sa.exc.ProgrammingError as err:  # such as: this user may not create tables
            engine.dispose()
            raise StoreDown(f"cannot use {shown(read)}: {str(err.orig).strip()}") from err
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, read)

    @property
    def is_embedded(self) -> bool:
        """Whether the database is a file of this process (SQLite), not a server."""
        return self._engine.dialect.name == "sqlite"

    def write_apart(self) -> None:
        """Have a process of its own write from now on, where that is of use: the database is a server, and on Linux.

        It ends together with the thread that calls this.
        """
        if IS_POSSIBLE and not self.is_embedded and self._apart is None:
            self._apart = Apart(as_given(self._url))

    @property
    def writer_pid(self) -> int | None:
        """The process that writes, if that is one of its own."""
        return None if self._apart is None else self._apart.pid

    def close(self) -> None:
        """Let go of every connection and of everybody who waits. Who asks afterwards is refused with StoreDown."""
        self._is_closed = True
        if self._apart is not None:
            self._apart.close()
        self._bell.close()
        with self._opening:
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self._engine.dispose()

    def _let_go(self, driver: Any, _record: object) -> None:
        """Whoever was still reading when the store was closed gives back a connection that nobody will use again."""
        if self._is_closed and driver is not None:
            driver.close()

    def __str__(self) -> str:
        return shown(self._url)

    # --- writing ---------------------------------------------------------------------------------------------

    def write(self, batch: Batch) -> int:
        """Write a batch, durably; the number of its last event.

        Raises AlreadyThere, BadBatch (nothing was written) or StoreDown (then it is there whole or not at all).
        """
        if self._apart is not None:
            last = self._apart.write(batch)
            self._bell.ring(last)
            return last
        try:
            return self.write_all([batch])[0]
        except (sa.exc.IntegrityError, sa.exc.DataError) as err:
            with self._connected() as connection:
                raise refused(connection, batch, err) from err

    def write_all(self, batches: Sequence[Batch]) -> list[int]:
        """Write several batches in one transaction, all or none; the number of the last event of each.

        What the database refuses comes out as its own error: which of the batches is to blame is not known here.
        """
        lasts = self._written(batches) if self._apart is None else self._apart.write_all(batches)
        self._bell.ring(lasts[-1])
        return lasts

    def _written(self, batches: Sequence[Batch]) -> list[int]:
        try:
            with self._transaction() as connection:
                return write_all(connection, batches)
        except (OverflowError, UnicodeError) as err:
            raise BadBatch(
                f"{len(batches)} batches", f"integers of 64 bits and Unicode text only ({err})", "batch"
            ) from err

    def forget(self, before_ms: int, limit: int = 10_000, *, ends: Ends | None = None) -> int:
        """Let what is older leave, about `limit` rows of each kind at most; how many rows left.

        Call it again until it says 0. Each step is a short transaction, so that writers never wait long. `ends` counts
        the jobs that left, by queue and state.
        """
        if self._apart is not None:
            return self._apart.forget(before_ms, limit, Counter() if ends is None else ends)
        total = 0
        for step in STEPS:
            left, may_have_more = 0, True
            while may_have_more and left < limit:
                gone_jobs: Ends = Counter()
                with self._transaction() as connection:
                    gone, may_have_more = step(connection, before_ms, limit - left, gone_jobs)
                left += gone
                if ends is not None:
                    ends.update(gone_jobs)
            total += left
        return total

    def lead(self, holder: str, now_ms: int, for_ms: int, name: str = "turns") -> bool:
        """Whether `holder` leads from now on for so long: nobody else does, or no longer."""
        upsert = _upsert(self._engine).values(name=name, holder=holder, until_ms=now_ms + for_ms)
        is_free = sa.or_(LEADER.c.holder == holder, LEADER.c.until_ms <= now_ms)
        upsert = upsert.on_conflict_do_update(
            index_elements=["name"], set_={"holder": holder, "until_ms": now_ms + for_ms}, where=is_free
        )
        with self._transaction() as connection:
            return connection.execute(upsert.returning(LEADER.c.holder)).one_or_none() is not None

    def give_up_lead(self, holder: str, name: str = "turns") -> None:
        """Let others lead at once, if `holder` did."""
        with self._transaction() as connection:
            connection.execute(sa.delete(LEADER).where(LEADER.c.name == name, LEADER.c.holder == holder))

    # --- events ----------------------------------------------------------------------------------------------

    def last_seq(self) -> int:
        """The number of the newest event; 0 before the first."""
        with self._connected() as connection:
            return reading.last_seq(connection)

    def oldest_seq(self) -> int:
        """From this number on every event is there: `events(oldest_seq() - 1, …)` is never expired."""
        with self._connected() as connection:
            return reading.oldest_seq(connection)

    def events(self, after: int, limit: int, *, queue: str = "", job_set: str = "", job: str = "") -> list[EventRow]:
        """The next events after that number that match; fewer than `limit` only where there are no more.

        Raises Expired where some after that number have been forgotten. The events of one job (`job`) leave together
        with the job, so they never expire before it does.
        """
        with self._connected() as connection:
            return reading.events(connection, after, limit, queue=queue, job_set=job_set, job=job)

    def wait(self, after: int, timeout_s: float) -> int:
        """Wait for an event after that number; the number of the newest when it came, or the time was over.

        Closing the store ends every wait.
        """
        if not self.is_embedded:
            self._listen()
        # What the bell says need not be asked of the database, which others are busy writing to.
        newest = self._bell.wait(after, 0)
        is_up_to_date = not self.is_embedded and self._bell.newest == after  # whatever is written rings it
        if newest is None and not is_up_to_date and (last := self.last_seq()) > after:
            return last
        newest = newest or self._bell.wait(after, timeout_s)
        if newest is not None:
            return newest
        return after if self._is_closed else self.last_seq()

    # --- jobs ------------------------------------------------------------------------------------------------

    def unfinished(self) -> Iterator[JobRow]:
        """All jobs that have not finished, in the order of submission, as they are at one moment. Streamed.

        Specifications of the same text are the same object.
        """
        self._require_open()
        with connected(self._engine, at_one_moment=True) as connection:
            yield from reading.unfinished(connection)

    def job(self, id_: str) -> JobRow | None:
        """The job with this id, if it is there."""
        with self._connected() as connection:
            return reading.job(connection, id_)

    def jobs(
        self, query: JobQuery = ANY, *, after: int | None = None, limit: int = 100, newest_first: bool = True
    ) -> JobPage:
        """Jobs that match, newest first or in the order of submission; `after` is the cursor of the page before."""
        with self._connected() as connection:
            return reading.jobs(connection, query, after=after, limit=limit, newest_first=newest_first)

    def count_jobs(self, queue: str = "") -> dict[str, dict[str, int]]:
        """How many jobs of each queue (or of one) are in each state."""
        with self._connected() as connection:
            return reading.count_jobs(connection, queue)

    def ids_of_clients(self, client_ids: Sequence[str]) -> dict[str, str]:
        """Which jobs came with these client ids; what never came is left out."""
        with self._connected() as connection:
            return reading.ids_of_clients(connection, client_ids)

    def specs(self, ids: Iterable[str]) -> dict[str, Body]:
        """What these jobs were submitted as; those that are not there are left out."""
        with self._connected() as connection:
            return reading.specs(connection, list(ids))

    def states_of(self, ids: Iterable[str]) -> dict[str, str]:
        """The state that each of these jobs is in; those that are not there are left out."""
        with self._connected() as connection:
            return reading.states_of(connection, list(ids))

    # --- leases, things, turns, audit ------------------------------------------------------------------------

    def leases(self, cluster: str = "", states: Sequence[str] = ()) -> list[LeaseRow]:
        """Leases of a cluster (or of all) in these states (or in any), by job and attempt."""
        with self._connected() as connection:
            return reading.leases(connection, cluster, states)

    def attempts(self, since_ms: int) -> Iterator[LeaseRow]:
        """All leases that have not ended, or did since that moment, as they are at one moment. Streamed."""
        self._require_open()
        with connected(self._engine, at_one_moment=True) as connection:
            yield from reading.attempts(connection, since_ms)

    def lease(self, job: str, attempt: int) -> LeaseRow | None:
        """The lease of one attempt, if it is there."""
        with self._connected() as connection:
            return reading.lease(connection, job, attempt)

    def leases_of(self, job: str) -> list[LeaseRow]:
        """The leases of every attempt of a job, the first one first."""
        with self._connected() as connection:
            return reading.leases_of(connection, job)

    def things(self, kind: str) -> list[Thing]:
        """All things of a kind, by name."""
        with self._connected() as connection:
            return reading.things(connection, kind)

    def thing(self, kind: str, name: str) -> Thing | None:
        """The thing of that kind and name, if it is there."""
        with self._connected() as connection:
            return reading.thing(connection, kind, name)

    def turns(self, *, before: int | None = None, limit: int = 100) -> list[TurnRow]:
        """Turns, the latest first; `before` is the number of the last one seen."""
        with self._connected() as connection:
            return reading.turns(connection, before, limit)

    def turn(self, number: int) -> TurnRow | None:
        """The turn with that number, if it is there."""
        with self._connected() as connection:
            return reading.turn(connection, number)

    def last_turn(self) -> int:
        """The number of the newest turn that was ever written; 0 before the first."""
        with self._connected() as connection:
            return reading.last_turn(connection)

    def audit(self, *, before: int | None = None, limit: int = 100) -> list[AuditRow]:
        """Audit lines, the latest first; `before` is the number of the last one seen."""
        with self._connected() as connection:
            return reading.audit(connection, before, limit)

    # --- care ------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """What is wrong inside the database; empty where all is well. Reads everything."""
        self._require_open()
        with connected(self._engine, at_one_moment=True) as connection:
            return list(problems(connection))

    def backup(self, target: Path) -> None:
        """Copy the database, as it is at one moment, into a file that must not exist; others go on meanwhile."""
        backup(self._url, target)

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        self._require_open()
        with connected(self._engine) as connection:
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        self._require_open()
        with self._line, transaction(self._engine) as connection:
            yield connection

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreDown("the store is closed")

    def _listen(self) -> None:
        with self._opening:
            self._require_open()
            if self._listener is None:
                self._listener = Listener(self._engine, self._bell)


def _require_newest(engine: sa.Engine) -> None:
    with connected(engine) as connection:
        found = schema.schema_of(connection)
    if found > SCHEMA:
        raise NewerSchema(found, SCHEMA)
    if found != SCHEMA:
        raise OlderSchema(found, SCHEMA)


def _upsert(engine: sa.Engine):  # type: ignore[no-untyped-def]
    if engine.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(LEADER)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(LEADER)
