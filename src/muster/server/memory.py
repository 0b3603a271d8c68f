"""What the world remembers that no row of a job or a lease says: so that a restart changes no decision.

A queue's memory of what it used (flows, design.md 4.1) and when it was last in use; the promises made to pending jobs;
to whom a job gave way; the virtual times of elastic jobs that wait again. Each is one small thing, written in the
transaction of the turn that changed it. What only concerns an attempt (its charge, whom it overtook, what it was given)
stands in its lease.

Why things, and what is left out: docs/adr/0037-reasons-with-turns.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from muster.model import events as ev
from muster.model.flow import Account
from muster.model.habit import Habit
from muster.model.jobs import Job, Pending, Reservation, Running, Task
from muster.model.plan import Rule
from muster.model.pools import DEFAULT_NAME
from muster.model.snapshot import QueueState
from muster.model.width import Kept, Serving
from muster.state.state import State
from muster.store.rows import Body, Thing

FLOW, PROMISE, EVICTED = "flow", "promise", "gaveWay"
KEPT, FLOOR = "virtual", "leastVirtual"

IN_USE_MS = 60_000  # how exactly it is known when a queue was last in use


class Memory:
    """What is written down of a state, and what is to be."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: dict[str, QueueState] = {}
        self._flows: dict[str, _Flow] = {}
        self._promises: dict[str, Pending] = dict(state.pending)
        self._kept, self._floors = dict(state.elastic.kept), dict(state.elastic.floors)
        for name, books in state.books.items():
            self._seen[name] = books.state()
            self._flows[name] = _flow_of(self._seen[name])

    def changed(self) -> tuple[list[Thing], list[tuple[str, str]]]:
        """What a turn changed: things to write, and the kind and name of those that are no more."""
        promises, gone = self._changed_promises()
        virtual, started = self._changed_virtual()
        return [*self._changed_flows(), *promises, *virtual], [*gone, *started, *self._gone_flows()]

    def _changed_flows(self) -> Iterable[Thing]:
        for name, books in self._state.books.items():
            state = books.state()
            if state is self._seen.get(name):
                continue
            self._seen[name] = state
            flow, before = _flow_of(state), self._flows.get(name)
            if before is None or before[:-1] != flow[:-1] or before.active_ms + IN_USE_MS <= flow.active_ms:
                self._flows[name] = flow
                yield Thing(kind=FLOW, name=name, body=_flow_body(flow))

    def _gone_flows(self) -> list[tuple[str, str]]:
        """Of queues that are no more."""
        gone = [name for name in self._flows if name not in self._state.books]
        for name in gone:
            del self._flows[name]
            self._seen.pop(name, None)
        return [(FLOW, name) for name in gone]

    def _changed_promises(self) -> tuple[list[Thing], list[tuple[str, str]]]:
        pending, before = self._state.pending, self._promises
        if not pending and not before:
            return [], []
        things = [promise_thing(it) for name, it in pending.items() if before.get(name) is not it]
        gone = [(PROMISE, name) for name in before if name not in pending]
        self._promises = dict(pending)
        return things, gone

    def _changed_virtual(self) -> tuple[list[Thing], list[tuple[str, str]]]:
        kept, floors = self._state.elastic.kept, self._state.elastic.floors
        if kept == self._kept and floors == self._floors:
            return [], []
        things = [kept_thing(name, it) for name, it in kept.items() if self._kept.get(name) != it]
        things += [floor_thing(pool, it) for pool, it in floors.items() if self._floors.get(pool) != it]
        gone = [(KEPT, name) for name in self._kept if name not in kept]
        self._kept, self._floors = dict(kept), dict(floors)
        return things, gone


# --- queues -------------------------------------------------------------------------------------


class _Flow(NamedTuple):
    account: Account
    fixed: Account
    habit: Habit
    last_start_ms: int | None
    stands_since_ms: int | None
    active_ms: int


def _flow_of(state: QueueState) -> _Flow:
    return _Flow(state.account, state.fixed, state.habit, state.last_start_ms, state.stands_since_ms, state.active_ms)


def _flow_body(flow: _Flow) -> Body:
    return {
        "account": _account_body(flow.account),
        "fixed": _account_body(flow.fixed),
        "active": flow.active_ms,
        "habit": [flow.habit.ends, flow.habit.mean_ms],
        "lastStart": flow.last_start_ms,
        "standsSince": flow.stands_since_ms,
    }


def _account_body(account: Account) -> list[int | str]:
    return [account.usage, account.flow, account.as_of_ms, str(account.service)]  # may be more than 64 bits


def recall_flow(state: State, thing: Thing) -> None:
    """A queue remembers what it used, if it is still there. All that runs has been started."""
    if thing.name in state.books:
        body = thing.body
        recalled = ev.QueueRecalled(
            queue=thing.name,
            account=_account(body["account"]),
            fixed=_account(body["fixed"]),
            active_ms=int(body["active"]),
            habit=_habit(body.get("habit", (0, 0))),
            last_start_ms=body.get("lastStart"),
            stands_since_ms=body.get("standsSince"),
        )
        state.apply(recalled, state.now_ms)


def _account(body: Sequence[int | str]) -> Account:
    usage, flow, as_of_ms = (int(it) for it in body[:3])
    return Account(usage=usage, flow=flow, as_of_ms=as_of_ms, service=int(body[3]) if len(body) > 3 else 0)


def _habit(body: Sequence[int]) -> Habit:
    ends, mean_ms = body
    return Habit(ends=ends, mean_ms=mean_ms)


# --- promises -----------------------------------------------------------------------------------


def promise_thing(pending: Pending) -> Thing:
    """A pending job and the room that is kept for it."""
    kept = pending.reservation
    reservation = None
    if kept is not None:
        reservation = {"cluster": kept.cluster, "start": kept.start_ms, "firm": kept.is_firm, "tasks": _tasks(kept)}
    body = {
        "attempt": pending.attempt,
        "admitted": pending.admitted_ms,
        "place": pending.turn_place,
        "charge": str(pending.charge),  # may be more than 64 bits
        "reservation": reservation,
    }
    return Thing(kind=PROMISE, name=pending.job.id, body=body)


def _tasks(reservation: Reservation) -> list[list[Any]]:
    return [[task.group, task.index, task.node, list(task.devices)] for task in reservation.tasks]


def recall_promise(state: State, thing: Thing) -> None:
    """A job that stands in line was promised room."""
    body, kept = thing.body, thing.body["reservation"]
    reservation = None
    if kept is not None:
        tasks = tuple(
            Task(group=group, index=index, node=node, devices=tuple(devices))
            for group, index, node, devices in kept["tasks"]
        )
        reservation = Reservation(
            cluster=kept["cluster"], start_ms=kept["start"], tasks=tasks, is_firm=bool(kept["firm"])
        )
    admitted = ev.JobAdmitted(
        job=thing.name,
        attempt=body["attempt"],
        cluster=reservation.cluster if reservation is not None else "",
        place=body["place"],
        charge=int(body["charge"]),
        reservation=reservation,
    )
    state.apply(admitted, body["admitted"])


# --- attempts -----------------------------------------------------------------------------------


def evicted_thing(state: State, job_id: str) -> Thing:
    """To whom a job gave way, none of which may take from it again; and how often that has doubled its lifetime."""
    body = {"by": list(state.preempted_by(job_id)), "doublings": state.doublings(job_id)}
    return Thing(kind=EVICTED, name=job_id, body=body)


def as_evicted(job: Job, thing: Thing) -> Job:
    """The job with its lifetime as it was when it last gave way."""
    return job.doubled(thing.body.get("doublings", 0))


def recall_evicted(state: State, thing: Thing) -> None:
    """A job that is not over gave way before."""
    for by in thing.body["by"]:
        state.apply(ev.JobPreempted(job=thing.name, attempt=0, rule=Rule.FAIR_SHARE, by=by, tasks=()), state.now_ms)


def kept_thing(job: str, kept: Kept) -> Thing:
    """The virtual time that an elastic job came to that waits again."""
    return Thing(kind=KEPT, name=job, body={"pool": kept.pool, "virtual": kept.virtual})


def floor_thing(pool: str, virtual: int) -> Thing:
    """Where an elastic job enters in a pool in which none runs."""
    return Thing(kind=FLOOR, name=pool or DEFAULT_NAME, body={"pool": pool, "virtual": virtual})


def recall_virtual(state: State, things: Iterable[Thing]) -> None:
    """Elastic jobs that are not over ran before, or others did."""
    found = list(things)
    if not found:
        return
    waiting = state.waiting()
    kept = ((it.name, Kept(**it.body)) for it in found if it.kind == KEPT and it.name in waiting)
    floors = ((str(it.body["pool"]), int(it.body["virtual"])) for it in found if it.kind == FLOOR)
    state.apply(ev.VirtualRecalled(kept=tuple(kept), floors=tuple(floors)), state.now_ms)


def attempt_body(run: Running) -> dict[str, Any]:
    """What a lease says of an attempt beside its places; most have nothing to say."""
    body: dict[str, Any] = {}
    if run.charge:
        body["charge"] = str(run.charge)  # may be more than 64 bits
    if run.overtook:
        body["overtook"] = list(run.overtook)
    if run.serving is not None:
        body["serving"] = _serving_body(run.serving)
    return body


def _serving_body(serving: Serving) -> list[Any]:
    return [serving.entered, serving.since_ms, serving.usage, str(serving.served), serving.resized_ms]


def serving_of(body: Mapping[str, Any]) -> Serving | None:
    """What an elastic attempt was given when its lease was last written."""
    if "serving" not in body:
        return None
    entered, since_ms, usage, served, resized_ms = body["serving"]
    return Serving(entered=entered, since_ms=since_ms, usage=usage, served=int(served), resized_ms=resized_ms)
