"""How many rows a second a store takes in and gives out: both databases, every commit flushed."""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time

from bench.measuring import at_least, table, tell
from bench.worlds import SCALE
from muster.store.rows import JobChange, JobRow, LeaseRow, NewEvent
from muster.store.store import Batch, Store
from muster.store.writer import Writer

EVENTS = int(200_000 * SCALE)
JOBS = int(100_000 * SCALE)
SINGLE = int(2_000 * SCALE)
AT_ONCE = 1_000
BAR_EVENTS = 80_000
BAR_SINGLE = 500

Measured = tuple[str, float, float]  # what, rows a second, microseconds of our CPU a row


def store() -> str:
    """Events and jobs in and out, in batches of 1,000, on SQLite and PostgreSQL."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres import Postgres

    folder = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    server = Postgres()
    try:
        tell("SQLite")
        sqlite, sqlite_told = _measured(f"sqlite:///{folder / 'muster.db'}")
        server.start()
        tell("PostgreSQL")
        postgresql, postgresql_told = _measured(server.url(server.database()))
        settings = {
            name: server.execute(f"SHOW {name}")[0][0] for name in ("fsync", "synchronous_commit", "full_page_writes")
        }
        version = server.execute("SHOW server_version")[0][0]
    finally:
        server.remove()
        shutil.rmtree(folder)
    rows = [
        (what, f"{rate:,.0f}", f"{cpu:.1f}", f"{other_rate:,.0f}", f"{other_cpu:.1f}")
        for (what, rate, cpu), (_, other_rate, other_cpu) in zip(sqlite, postgresql, strict=True)
    ]
    headings = ("", "SQLite: rows/s", "µs of our CPU a row", "PostgreSQL: rows/s", "µs of our CPU a row")
    return "\n".join(
        [
            f"Batches of {AT_ONCE:,}, one transaction each; a job's specification is 400 bytes of JSON. Rows a second",
            "are by the clock on the wall, on a machine that others may use too.",
            f"SQLite: {sqlite_told}. PostgreSQL {version} on the same machine: "
            f"{', '.join(f'{name} {value}' for name, value in settings.items())}; {postgresql_told}.",
            "",
            *table(headings, rows),
            "",
            at_least("Events in, SQLite", BAR_EVENTS, sqlite[0][1], "/s"),
            at_least("Events in, PostgreSQL", BAR_EVENTS, postgresql[0][1], "/s"),
            at_least("Single jobs through a writer, SQLite", BAR_SINGLE, sqlite[-1][1], "/s"),
            "",
            "Checked: every event and job came back in its order, and `check` found nothing wrong before and after",
            "everything was forgotten.",
        ]
    )


def _measured(url: str) -> tuple[list[Measured], str]:
    """Every measurement on one database, and how much memory streaming all jobs took."""
    ids = [f"j-{number:012}" for number in range(JOBS)]
    events, jobs = list(_events()), [_submitted(part) for part in _parts(ids)]
    with closing(Store.open(url)) as opened:
        results = [
            _rate("events in", EVENTS, lambda: _write(opened, events)),
            _rate("events out", EVENTS, lambda: _read_events(opened)),
            _rate("jobs in, one event each", JOBS, lambda: _write(opened, jobs)),
        ]
        before = _peak_mib()
        results.append(_rate("jobs out, in the order of submission", JOBS, lambda: _stream(opened, ids)))
        grown = _peak_mib() - before
        steps = (("leased", "pending"), ("running", "running"), ("ended", "succeeded"))
        for lease, state in steps:
            moved = [_moved(part, lease, state) for part in _parts(ids)]
            results.append(
                _rate(
                    f"jobs {state}: event, change and lease of each",
                    JOBS,
                    lambda moved=moved: _write(opened, moved),  # type: ignore[misc]
                )
            )
        results.append(_rate("jobs through a page of 100 at a time, newest first", JOBS, lambda: _page(opened, ids)))
        _require(opened.check() == [], "the check found something wrong")
        results.append(_rate("jobs forgotten, with events and leases", JOBS, lambda: _forget(opened)))
        _require(opened.check() == [] and opened.job(ids[0]) is None, "not everything was forgotten")
        results.append(_rate("single jobs through a writer, 32 waiting", SINGLE, lambda: _single(opened)))
    return results, f"streaming all jobs took {grown:.0f} MiB"


def _rate(what: str, rows: int, call: Callable[[], None]) -> Measured:
    wall, cpu = perf_counter(), process_time()
    call()
    wall, cpu = perf_counter() - wall, process_time() - cpu
    tell(f"{what}: {rows / wall:,.0f}/s")
    return what, rows / wall, 1e6 * cpu / rows


def _events() -> Iterable[Batch]:
    for start in range(0, EVENTS, AT_ONCE):
        yield Batch(
            at_ms=start,
            events=[
                NewEvent(
                    kind="noted",
                    job=f"n-{number // 4}",
                    queue=f"q{number % 100}",
                    job_set=f"s{number % 1000}",
                    body={"user": "ann", "cpu": 2000, "memory": "4Gi", "number": number},
                )
                for number in range(start, min(start + AT_ONCE, EVENTS))
            ],
        )


def _submitted(ids: Sequence[str]) -> Batch:
    spec = {"command": ["python", "train.py", "--rate", "0.1"], "env": {"A": "b" * 100, "C": "d" * 100}, "cpu": "2"}
    spec["groups"] = [{"name": "main", "min": 1, "max": 4, "resources": {"cpu": 2000, "memory": 2**32}}]
    return Batch(
        at_ms=1,
        events=[NewEvent(kind="submitted", job=job, queue=f"q{job[-2:]}", job_set=job[:-3], body={}) for job in ids],
        jobs=[
            JobRow(
                id=job,
                client_id=f"c-{job}",
                queue=f"q{job[-2:]}",
                job_set=job[:-3],
                user=f"u{job[-1]}",
                state="queued",
                submit_ms=1,
                spec=spec,
            )
            for job in ids
        ],
    )


def _moved(ids: Sequence[str], lease: str, state: str) -> Batch:
    end = {"end_ms": 3} if state == "succeeded" else {}
    return Batch(
        at_ms=2,
        events=[NewEvent(kind=state, job=job, queue=f"q{job[-2:]}", job_set=job[:-3], body={"on": "c"}) for job in ids],
        changes=[JobChange(id=job, state=state, attempt=1, cluster="c", **end) for job in ids],
        leases=[
            LeaseRow(job=job, attempt=1, cluster="c", name=job, state=lease, spec={"image": "i" * 200}) for job in ids
        ],
    )


def _write(opened: Store, batches: Iterable[Batch]) -> None:
    for batch in batches:
        opened.write(batch)


def _read_events(opened: Store) -> None:
    seen = 0
    while events := opened.events(seen, AT_ONCE):
        _require(
            [event.seq for event in events] == list(range(seen + 1, seen + len(events) + 1)), "an event is missing"
        )
        seen = events[-1].seq
    _require(seen == EVENTS, "events are missing")


def _stream(opened: Store, ids: Sequence[str]) -> None:
    count = 0
    for job, wanted in zip(opened.unfinished(), ids, strict=True):
        _require(job.id == wanted, "a job is not in its place")
        count += 1
    _require(count == JOBS, "jobs are missing")


def _page(opened: Store, ids: Sequence[str]) -> None:
    cursor, count = None, 0
    while True:
        page = opened.jobs(after=cursor)
        count += len(page.rows)
        cursor = page.next
        if cursor is None:
            break
    _require(count == len(ids), "jobs are missing")


def _forget(opened: Store) -> None:
    while opened.forget(4):
        pass


def _single(opened: Store) -> None:
    with Writer(opened) as writer:
        waiting = []
        for number in range(SINGLE):
            waiting.append(writer.put(_submitted([f"single-{number:06}"])))
            if len(waiting) >= 32:
                waiting.pop(0).result()
        for future in waiting:
            future.result()


def _parts(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"bench: {otherwise}")
