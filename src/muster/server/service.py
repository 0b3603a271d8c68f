"""What can be asked of the server, whoever asks and however: the API speaks HTTP, this does the work.

Submitted jobs are durable before anyone hears of them, and the world hears of them after. Everything else goes through
a turn, whose rows are durable before the answer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from muster.documents.jobs.spec import JobSpec, OnLost, as_document
from muster.documents.policy.running import Places
from muster.documents.problems import DocumentError, Problem
from muster.model import events as ev
from muster.model.after import After, When
from muster.model.jobs import Job
from muster.model.policy import Policy, Preemption
from muster.model.pools import called
from muster.model.queues import Queue
from muster.model.width import LEVELS
from muster.server.access import Access, Who, as_thing, new_token
from muster.server.answering import Answers
from muster.server.bells import Bells
from muster.server.cordons import CORDON, Cordons
from muster.server.finding import POLICY, SETTING, classes_in, found_in, queue_thing, settings_in
from muster.server.leases import Leases
from muster.server.limits import Limits
from muster.server.logs import Logs
from muster.server.memory import KEPT
from muster.server.naming import Names
from muster.server.news import News
from muster.server.notes import KINDS, Notes
from muster.server.reasons import Reasons
from muster.server.recording import Recording
from muster.server.room import Closed, Full, Room
from muster.server.ruling import Ruling
from muster.server.specs import Specs
from muster.server.submissions import Submissions, check_rights
from muster.server.trying import Trials
from muster.server.turns import Turns
from muster.server.unfinished import reader_of_kept
from muster.server.world import Found, World, ids_of, restored, with_past
from muster.store.batch import Batch
from muster.store.errors import AlreadyThere, StoreDown
from muster.store.forgetting import Ends
from muster.store.rows import AuditRow, JobChange, JobRow, NewEvent, Thing
from muster.store.store import Store
from muster.store.writer import Writer

TIDY_EVERY_S = 60.0
FORGOTTEN_AT_ONCE = 5_000  # rows of a kind
PATIENCE_S = 20.0  # for a turn: whoever waits longer would only keep a thread from others
PAUSE_S = 0.02  # so that turns can write in between
_NAMED_BEFORE = "the name of a job of this submission, or the id of one before that is still kept"

log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """A job that is taken in. `never`: why it can never start, if what it comes after has ended in another way."""

    row: JobRow
    job: Job
    never: str


class Service:
    """A server without its doors."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], int],
        policy: Policy,
        limits: Limits = Limits(),  # noqa: B008
        levels: Mapping[str, int] = LEVELS,
        recording: Recording | None = None,
    ) -> None:
        self.store = store
        self.levels = levels
        self.limits = limits
        self.clock = clock
        self.writer = Writer(store)
        self.classes = classes_in(store)
        self.access = Access(store.things("token"))
        settings = settings_in(store)
        self._ruling = Ruling(policy, settings["preemption"], settings[POLICY])
        self._administering = Lock()  # of settings and queues: one change after the other
        policy = self._ruling.policy()
        self.cordons = Cordons(store.things(CORDON))
        self.notes = Notes(thing for kind in KINDS for thing in store.things(kind))
        found = found_in(store, levels, self.cordons)
        self._is_closing = Event()
        self._tidying = Thread(target=self._tidy, name="tidying", daemon=True)
        self.bells = Bells()
        self.logs = Logs(self.bells.ring)
        self.leases = Leases(found.leases)
        self.leases.woken = self.bells.ring
        self._return_pending(found)
        self.room = Room(store.count_jobs(), limits.most_queued)
        self.world: World = restored(policy, found)
        self.reasons = Reasons(self.world, store, keep_ms=limits.keep_ms)
        self.answers = Answers(self.world, self.reasons, clock)
        self._submissions = Submissions(self.world, self.classes, levels)
        self._names = Names()
        self.trials = Trials(self.world, self._submissions, self.classes, levels, clock)
        self.specs = Specs(store, reader_of_kept(self.classes, levels))
        self.turns = Turns(
            self.world,
            self.leases,
            self.writer,
            clock,
            self.room,
            self.reasons,
            limits,
            self.cordons,
            self.notes,
            recording,
        )
        self.recording = recording
        if recording is not None:
            self.world.listen(recording)

    def _return_pending(self, found: Found) -> None:
        """Who was promised room that nobody remembers stands in line again, and its row says so; nor does anyone need
        to know any more to whom jobs that are over gave way, or what they were given."""
        known = {thing.name for thing in found.promises}
        pending = [job.id for job, past in with_past(found.jobs) if past.state == "pending" and job.id not in known]
        of_jobs = [*found.gave_way, *(thing for thing in found.virtual if thing.kind == KEPT)]
        alive = ids_of(found.jobs) if of_jobs else set()
        gone = [(thing.kind, thing.name) for thing in of_jobs if thing.name not in alive]
        if self.notes.jobs():  # of jobs that were over when a server wrote no end of them yet
            gone += self.notes.end(self.notes.jobs() - ids_of(found.jobs))
        if pending or gone:
            changes = [JobChange(id=job_id, state="queued", cluster="") for job_id in pending]
            self.writer.put(Batch(at_ms=self.clock(), changes=changes, gone=gone)).result()

    def start(self) -> None:
        """Begin to take turns."""
        self.turns.start()
        self._tidying.start()

    @property
    def is_closing(self) -> bool:
        """Whether nobody should begin to wait for anything."""
        return self._is_closing.is_set()

    def begin_to_close(self) -> None:
        """Whoever waits for something gets the answer that there is."""
        self._is_closing.set()
        self.bells.ring_all()

    def close(self) -> None:
        """End after the turn that is under way."""
        self.begin_to_close()
        self.turns.stop()
        self._tidying.join()
        if self.recording is not None:
            self.recording.close()
        self.writer.close()
        self.store.close()

    def _tidy(self) -> None:
        """What is over and older than it is kept leaves the store, a little at a time."""
        while not self._is_closing.wait(min(self.limits.keep_ms / 4000, TIDY_EVERY_S)):
            try:
                while self._forget_some():
                    if self._is_closing.wait(PAUSE_S):
                        return
            except StoreDown as err:
                log.warning("what is over cannot be forgotten now: %s", err)

    def _forget_some(self) -> int:
        ends: Ends = Counter()
        try:
            return self.store.forget(self.clock() - self.limits.keep_ms, FORGOTTEN_AT_ONCE, ends=ends)
        finally:  # what left has left, whatever became of the rest
            self.room.forget(ends)

    def first_token(self) -> str | None:
        """The token of the first admin, where there is none yet."""
        if self.access.names():
            return None
        token = new_token()
        thing = as_thing(Who(name="admin", is_admin=True), token)
        self.writer.put(Batch(at_ms=self.clock(), things=[thing])).result()
        self.access.add(thing)
        return token

    # -- what there is -------------------------------------------------------------------------------------

    def queue_names(self) -> Collection[str]:
        """All queues."""
        return self.world.queues.keys()

    @property
    def policy(self) -> Policy:
        """What turns go by now."""
        return self.world.state.policy

    # -- submitting ----------------------------------------------------------------------------------------

    def submit(self, decoded: Any, who: Who, key: str = "") -> list[tuple[str, str]]:
        """Take in jobs: (id, name) of each, in order, durable. The same `key` again gives the same jobs.

        Raises DocumentError when anything is wrong with any of them, Full when a queue has no room; then none is taken.
        """
        self._refuse_if_full(decoded, who, key)
        specs = self._submissions.read(decoded)
        if len(specs) > self.limits.most_jobs:
            message = f"{len(specs)} jobs are not allowed: at most {self.limits.most_jobs} in one request"
            raise DocumentError((Problem("jobs", 0, message),))
        check_rights(specs, who)
        keys = [f"{key}/{place}" for place in range(len(specs))] if key else []
        if keys and self._came_before(key) and (known := self._submitted_before(keys, specs)):
            return known
        asked = Counter(spec.queue for spec in specs)
        try:
            self.room.take(asked)
        except Closed as err:
            raise DocumentError((Problem("jobs", 0, str(err)),)) from None
        try:
            taken = self._written(specs, who, keys)
        except BaseException as err:
            self.room.give_back(asked)
            if isinstance(err, AlreadyThere) and keys and (known := self._submitted_before(keys, specs)):
                return known  # the same request came twice at once
            raise
        self.world.reruns.update(one.job.id for one, spec in zip(taken, specs, strict=True) if is_rerun(spec))
        self.specs.remember({one.job.id: spec for one, spec in zip(taken, specs, strict=True)})
        events: list[ev.Event] = [ev.JobSubmitted(job=one.job) for one in taken]
        events += [ev.JobCancelled(job=one.job.id, cause=one.never) for one in taken if one.never]
        self.turns.put(News(events=events), is_durable=True)
        return [(one.job.id, spec.name or "") for one, spec in zip(taken, specs, strict=True)]

    def _refuse_if_full(self, decoded: Any, who: Who, key: str) -> None:
        """Raise Full before anything is read, where that is plain to see: whoever knocks while there is no room, again
        and again, must not cost those who were let in."""
        given = decoded.get("jobs") if isinstance(decoded, dict) else None
        named = [entry.get("queue") for entry in given if isinstance(entry, dict)] if isinstance(given, list) else []
        asked = Counter(queue for queue in named if isinstance(queue, str))
        try:
            self.room.look({it: asked[it] for it in asked if it in self.world.queues and who.may("submit", it)})
        except Full:
            if not key or not self._came_before(key):
                raise

    def _came_before(self, key: str) -> bool:
        """Whether a submission with this key was taken in: all of its jobs or none."""
        return bool(self.store.ids_of_clients([f"{key}/0"]))

    def _submitted_before(self, keys: Sequence[str], specs: Sequence[JobSpec]) -> list[tuple[str, str]]:
        found = self.store.ids_of_clients(keys)
        if not found:
            return []
        if len(found) != len(keys):
            message = f"was used before, for {len(found)} jobs: a key belongs to one submission"
            raise DocumentError((Problem("key", 0, message),))
        return [(found[key], spec.name or "") for key, spec in zip(keys, specs, strict=True)]

    def _written(self, specs: Sequence[JobSpec], who: Who, keys: Sequence[str]) -> list[Taken]:
        """The jobs as they are durable now."""
        while True:
            taken = self._taken(specs, who, keys)
            try:
                self._write(taken)
            except AlreadyThere as err:
                if err.client_ids or not err.ids:
                    raise
                continue  # another server gave out the same ids at the same moment
            return taken

    def _taken(self, specs: Sequence[JobSpec], who: Who, keys: Sequence[str]) -> list[Taken]:
        now_ms = self.turns.now_ms()
        first, ids = self._names.ids([spec.name for spec in specs], now_ms)
        called, before = _called(specs, ids), self._found_before(specs)
        taken = []
        for place, spec in enumerate(specs):
            named = [After(job_id, it.when) for it in spec.after for job_id in called.get(it.job, [it.job])]
            over = {it: before[it.job].state for it in named if it.job in before and before[it.job].end_ms is not None}
            after = tuple(it for it in named if it not in over or not it.when.is_met_by(over[it]))
            job = spec.job(ids[place], now_ms, after, user=spec.user or who.name, number=first + place)
            never = next((it.never(over[it]) for it in after if it in over), "")
            taken.append(Taken(_row(job, document_of(spec, named), keys[place] if keys else ""), job, never))
        return taken

    def _found_before(self, specs: Sequence[JobSpec]) -> dict[str, JobRow]:
        """Jobs of earlier submissions that these come after, by id."""
        own = {name for spec in specs for name in (spec.name, spec.document.get("name"))}
        found: dict[str, JobRow] = {}
        problems = []
        for place, spec in enumerate(specs):
            for name in (need.job for need in spec.after):
                if name in own or name in found:
                    continue
                row = self.store.job(name)
                if row is None:
                    message = f"{name!r} is not allowed: {_NAMED_BEFORE}"
                    problems.append(Problem(f"jobs[{place}].after", 0, message))
                else:
                    found[name] = row
        if problems:
            raise DocumentError(tuple(problems))
        return found

    def _write(self, taken: Sequence[Taken]) -> None:
        events = [
            NewEvent(
                kind="submitted",
                body={"job": job.id, "queue": job.queue},
                job=job.id,
                queue=job.queue,
                job_set=job.job_set,
            )
            for _, job, _ in taken
        ]
        batch = Batch(at_ms=taken[0].job.submit_ms, jobs=[one.row for one in taken], events=events)
        self.writer.put(batch).result()

    def set(self, who: Who, *, paused: bool | None, preemption: Preemption | None) -> None:
        """An operator pauses the server, or says whether turns may evict jobs."""
        given = {"paused": paused, "preemption": None if preemption is None else preemption.value}
        things = [
            Thing(kind=SETTING, name=name, body={"value": value}) for name, value in given.items() if value is not None
        ]
        with self._administering:
            self.change([], who, "settings", given, things=things).result(PATIENCE_S)
            with self.world.lock:
                if paused is not None:
                    self.world.is_paused = paused
                if preemption is not None:
                    self.world.set_policy(self._ruling.set_preemption(preemption))
        self.turns.put(News(), is_durable=True)  # decided anew, with what is set now

    def set_policy(self, who: Who, given: Mapping[str, Any]) -> None:
        """An operator sets numbers of the rules, or takes back what was set (None); raises DocumentError."""
        with self._administering:
            pools = [called(name) for name in self.world.state.machines.pools]
            kept = self._ruling.changed(given, Places(clusters=self.world.clusters, pools=pools))
            thing = Thing(kind=SETTING, name=POLICY, body={"value": kept})
            self.change([], who, "policy", given, things=[thing]).result(PATIENCE_S)
            self._ruling.kept = kept
            with self.world.lock:
                self.world.set_policy(self._ruling.policy())
        self.turns.put(News(), is_durable=True)

    def set_of_policy(self) -> Collection[str]:
        """The keys of the policy that operators have set."""
        return tuple(self._ruling.kept)

    def set_queue(self, who: Who, queue: Queue) -> None:
        """Make a queue, or change one."""
        with self._administering:
            made, told = ev.QueueSet(queue=queue), {"queue": queue.name}
            done = self.change([made], who, "queue", told, things=[queue_thing(queue)])
            done.add_done_callback(lambda done: None if done.exception() else self.room.open(queue.name))
            done.result(PATIENCE_S)

    def delete_queue(self, who: Who, name: str) -> int:
        """Make an end of a queue; how many jobs of it are not over: it goes only if there are none."""
        with self._administering:
            left = self.room.close(name)
            if left:
                return left
            gone = ev.QueueDeleted(queue=name)
            done = self.change([gone], who, "queue deleted", {"queue": name}, gone=[("queue", name)])
            done.add_done_callback(lambda done: self.room.open(name) if done.exception() else None)
            done.result(PATIENCE_S)
            return 0

    # -- changing ------------------------------------------------------------------------------------------

    def change(
        self,
        events: Sequence[ev.Event],
        who: Who,
        what: str,
        body: Mapping[str, Any],
        *,
        things: Iterable[Thing] = (),
        gone: Iterable[tuple[str, str]] = (),
    ) -> Future[int]:
        """Someone changes the world: considered in the next turn, with a line in the audit."""
        audit = AuditRow(at_ms=self.turns.now_ms(), who=who.name, what=what, body=dict(body))
        return self.turns.put(News(events=events, things=tuple(things), gone=tuple(gone), audit=(audit,)))


def is_rerun(spec: JobSpec) -> bool:
    """Whether a job runs again elsewhere when its cluster falls silent for long."""
    return spec.on_lost is OnLost.RERUN


def document_of(spec: JobSpec, after: Iterable[After]) -> dict[str, Any]:
    """What the store keeps of a job: as it was submitted, but for the ids of those it comes after."""
    document = as_document(spec)
    if spec.after:
        document["after"] = [it.job if it.when is When.OK else {"job": it.job, "when": it.when.value} for it in after]
    return document


def _called(specs: Sequence[JobSpec], ids: Sequence[str]) -> dict[str, list[str]]:
    """The ids that a name stands for in one submission; the name of an array stands for all its jobs."""
    called: dict[str, list[str]] = {}
    for spec, job_id in zip(specs, ids, strict=True):
        array = spec.document.get("name") if "array" in spec.document else None
        for name in {spec.name, array} - {None}:
            called.setdefault(str(name), []).append(job_id)
    return called


def _row(job: Job, document: Mapping[str, Any], client_id: str) -> JobRow:
    return JobRow(
        id=job.id,
        client_id=client_id,
        queue=job.queue,
        job_set=job.job_set,
        user=job.user,
        state="queued",
        attempt=0,
        priority=job.priority,
        priority_class=job.priority_class,
        submit_ms=job.submit_ms,
        start_ms=None,
        end_ms=None,
        cluster="",
        reason="",
        seq=0,
        spec=document,
    )
