"""A store and a few dicts agree, whatever is written, closed, opened and forgotten."""

from __future__ import annotations

import itertools
from contextlib import closing

from effort import a_part
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from store_rows import a_job, everything

from muster.store.rows import ENDED, FINISHED, UNSET, EventRow, JobChange, LeaseRow, NewEvent, Thing
from muster.store.store import Batch, Store
from muster.store.writer import Writer

JOBS = "abc"  # few, so that much happens to each
NAMES = st.sampled_from(JOBS)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5)
BODIES = st.dictionaries(st.text(max_size=3), st.none() | st.booleans() | NUMBERS | st.text(max_size=5), max_size=2)
EVENTS = st.builds(NewEvent, kind=TEXTS, body=BODIES, job=st.just("") | NAMES, queue=TEXTS, job_set=TEXTS)
STATES = st.sampled_from(["queued", *FINISHED])
LEASE_STATES = st.sampled_from(["leased", ENDED, ENDED])
UNCHANGED = st.just(UNSET)


@st.composite
def changes(draw):
    state = draw(STATES | UNCHANGED)
    end = draw(st.integers(0, 4) | NUMBERS) if state in FINISHED else UNSET
    return JobChange(
        id=draw(NAMES),
        state=state,
        end_ms=end,
        start_ms=draw(UNCHANGED | st.none() | NUMBERS),
        attempt=draw(UNCHANGED | NUMBERS),
        cluster=draw(UNCHANGED | TEXTS),
        reason=draw(UNCHANGED | TEXTS),
    )


STEPS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {
                "new": st.lists(st.tuples(NAMES, TEXTS, BODIES), min_size=1, max_size=3, unique_by=lambda new: new[0]),
                "events": st.lists(EVENTS, max_size=3),
                "changes": st.lists(changes(), min_size=1, max_size=4),
                "leases": st.lists(st.tuples(NAMES, st.integers(1, 2), TEXTS, LEASE_STATES, BODIES), max_size=2),
                "things": st.lists(st.builds(Thing, kind=st.just("queue"), name=NAMES, body=BODIES), max_size=2),
                "gone": st.lists(NAMES, max_size=1),
            }
        ),
        st.just("restart"),
        st.integers(-4, 2),  # forget what is older than so many steps (or younger: all that has ended)
    ),
    min_size=5,
    max_size=10,
)


class Model:
    """The rules once more, plainly."""

    def __init__(self):
        self.pages, self.jobs, self.leases, self.things = [], {}, {}, {}
        self.histories = {}
        self.last = self.forgotten = 0

    def batch(self, step, at_ms):
        """The part of a random step that is allowed now."""
        new = [
            a_job(id, user=user, spec=spec, submit_ms=at_ms) for id, user, spec in step["new"] if id not in self.jobs
        ]
        there = {*self.jobs, *(job.id for job in new)}
        return Batch(
            at_ms=at_ms,
            events=[*step["events"], *(NewEvent(kind="submitted", body={}, job=job.id) for job in new)],
            jobs=new,
            changes=step["changes"],
            leases=[
                LeaseRow(job=job, attempt=attempt, cluster=cluster, name=job, state=state, spec=spec)
                for job, attempt, cluster, state, spec in step["leases"]
                if job in there
            ],
            things=step["things"],
            gone=[("queue", name) for name in step["gone"]],
        )

    def write(self, batch):
        first, page = {}, []
        for event in batch.events:
            self.last += 1
            first.setdefault(event.job, self.last)
            page.append(
                EventRow(
                    seq=self.last,
                    at_ms=batch.at_ms,
                    kind=event.kind,
                    body=event.body,
                    job=event.job,
                    queue=event.queue,
                    job_set=event.job_set,
                )
            )
        if page:
            self.pages.append(page)
        for job in batch.jobs:
            self.jobs[job.id] = replace(job, seq=first[job.id])
            self.histories[job.id] = []
        for event in page:
            if event.job in self.jobs:
                self.histories[event.job].append(event)
        for change in batch.changes:
            if change.id in self.jobs:
                named = {name: getattr(change, name) for name in change.__slots__}
                if change.state is not UNSET and change.state not in FINISHED:
                    named["end_ms"] = None
                self.jobs[change.id] = replace(
                    self.jobs[change.id], **{name: value for name, value in named.items() if value is not UNSET}
                )
        for lease in batch.leases:
            self.leases[lease.job, lease.attempt] = lease
        for thing in batch.things:
            self.things[thing.name] = thing
        for _, name in batch.gone:
            self.things.pop(name, None)

    def forget(self, before_ms):
        held = {lease.job for lease in self.leases.values() if lease.state != ENDED}
        leaving = {
            job.id
            for job in self.jobs.values()
            if job.state in FINISHED and job.end_ms < before_ms and job.id not in held
        }
        self.jobs = {id: job for id, job in self.jobs.items() if id not in leaving}
        self.leases = {key: lease for key, lease in self.leases.items() if lease.job not in leaving}
        self.histories = {id: events for id, events in self.histories.items() if id not in leaving}
        while self.pages and self.pages[0][0].at_ms < before_ms:
            self.forgotten = self.pages.pop(0)[-1].seq

    def everything(self):
        jobs = sorted(self.jobs.values(), key=lambda job: -job.seq)
        return {
            "events": [event for page in self.pages for event in page],
            "jobs": jobs,
            "unfinished": [job for job in jobs[::-1] if job.state not in FINISHED],
            "leases": [lease for _, lease in sorted(self.leases.items())],
            "things": sorted(self.things.values(), key=lambda thing: thing.name.encode()),
            "last": self.last,
            "oldest": self.forgotten + 1,
        }


def agree(url, steps, *, together, opened=Store.open):
    """Play the steps to both. Batches that follow each other may be written in one transaction."""
    model, store = Model(), opened(url)
    try:
        for at_ms, step in enumerate(steps):
            if step == "restart":
                store.close()
                store = opened(url)
            elif isinstance(step, int):
                while store.forget(at_ms - step, 3):
                    pass
                model.forget(at_ms - step)
            else:
                batches = [model.batch(step, at_ms)]
                model.write(batches[0])
                if together:
                    batches.append(model.batch({**step, "new": []}, at_ms))
                    model.write(batches[1])
                assert store.write_all(batches)[-1] == model.last
            told = everything(store)
            assert {name: told[name] for name in model.everything()} == model.everything()
            for name in JOBS:
                assert store.events(0, 100, job=name) == model.histories.get(name, [])
        assert store.check() == []
    finally:
        store.close()


@given(steps=STEPS, together=st.booleans())
@a_part(2)
def test_sqlite_and_dicts_agree(tmp_path_factory, steps, together):
    agree(f"sqlite:///{tmp_path_factory.mktemp('model') / 'muster.db'}", steps, together=together)


@given(steps=STEPS, together=st.booleans())
@a_part(2)
def test_postgresql_and_dicts_agree(postgres, template, steps, together):
    name = postgres.database(template)
    agree(postgres.url(name), steps, together=together)
    postgres.drop(name)


@given(steps=STEPS, together=st.booleans())
@settings(max_examples=10, deadline=None)
def test_postgresql_written_by_another_process_and_dicts_agree(postgres, template, steps, together):
    def opened(url):
        store = Store.open(url)
        store.write_apart()
        return store

    name = postgres.database(template)
    agree(postgres.url(name), steps, together=together, opened=opened)
    postgres.drop(name)


@given(sizes=st.lists(st.integers(0, 3), max_size=30))
@settings(max_examples=20)
def test_what_a_writer_is_given_is_numbered_in_that_order(tmp_path_factory, sizes):
    url = f"sqlite:///{tmp_path_factory.mktemp('writer') / 'muster.db'}"
    with closing(Store.open(url)) as store, Writer(store) as writer:
        batches = [Batch(at_ms=1, events=[NewEvent(kind="e", body={})] * size) for size in sizes]
        futures = [writer.put(batch) for batch in batches]
        assert [future.result(60) for future in futures] == list(itertools.accumulate(sizes))
