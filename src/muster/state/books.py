"""What a queue's events add up to: its line of jobs, its accounts, its charges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from muster.engine.columns.queued_jobs import Roll
from muster.model.events import QueueRecalled
from muster.model.habit import NO_HABIT
from muster.model.jobs import NEVER_MS, Job, Profile
from muster.model.made import Made
from muster.model.queues import Queue
from muster.model.resources import Resources
from muster.model.snapshot import Lane, QueueState
from muster.state.tally import Measure, Meter, Tally


class QueueBooks:
    """One queue as events left it, last in use at `active_ms`. `frozen`: its state, until something changes."""

    def __init__(self, queue: Queue, half_time_ms: int, roll: Roll, now_ms: int, changed: list[QueueBooks]) -> None:
        self.queue = queue
        self._changed = changed
        self._roll = roll
        self._account = Meter(half_time_ms)
        self._fixed = Meter(half_time_ms)
        self._started = Tally()
        self._demand = Tally()
        self._raced = Tally()
        self._charged = 0
        self.active_ms = now_ms
        self._jobs = 0
        self._changes = 0
        self._habit = NO_HABIT
        self._in_line = 0
        self._stands_since_ms: int | None = None
        self._last_start_ms: int | None = None
        self.frozen: QueueState | None = None
        changed.append(self)

    def state(self) -> QueueState:
        """The queue as a frozen value."""
        if self.frozen is None:
            self.frozen = QueueState(
                queue=self.queue,
                account=self._account.account(),
                fixed=self._fixed.account(),
                started=self._started.amounts(),
                charged=self._charged,
                demand=self._demand.amounts(),
                active_ms=self.active_ms,
                lanes=Made(partial(self._lanes, self._changes)),
                raced=self._raced.amounts(),
                habit=self._habit,
                stands_since_ms=self._stands_since_ms,
                last_start_ms=self._last_start_ms,
            )
        return self.frozen

    def _lanes(self, changes: int) -> tuple[Lane, ...]:
        """The lanes as they were after so many changes."""
        if changes != self._changes:
            raise LookupError(f"the line of {self.queue.name} has moved on: look at a snapshot before the world does")
        return self._roll.lanes_of(self.queue.name)

    @property
    def jobs(self) -> int:
        """How many of its jobs are not over."""
        return self._jobs

    def started(self) -> Resources:
        """What its started jobs hold."""
        return self._started.amounts()

    def raced(self) -> Resources:
        """What its raced jobs hold of its quota."""
        return self._raced.amounts()

    def asks_for(self, name: str) -> int:
        """How much of a resource its jobs ask for."""
        return self._demand.get(name)

    def fork(self, roll: Roll, changed: list[QueueBooks]) -> QueueBooks:
        """A copy that can go its own way, with its jobs on another roll; it says when it changes."""
        other = object.__new__(QueueBooks)
        other.__dict__.update(
            {name: part.copy() if isinstance(part, Meter | Tally) else part for name, part in self.__dict__.items()}
        )
        other._roll, other.frozen, other._changed = roll, None, changed
        changed.append(other)
        return other

    def _change(self) -> None:
        if self.frozen is not None:
            self.frozen = None
            self._changed.append(self)

    def set_queue(self, queue: Queue) -> None:
        """The queue's settings changed. Service per weight stays as it was."""
        if queue.weight != self.queue.weight:
            self._rescale(queue.weight)
        self.queue = queue
        self._change()

    def _rescale(self, weight: int) -> None:
        service = self._account.account().service
        self._account.serve(service * weight // self.queue.weight - service)

    def join(self, job: Job) -> None:
        """A job stands in line."""
        self._changes += 1
        self._in_line += 1
        self._roll.add(job)
        self._demand.add(job.profile.most, 1)
        self._change()

    def lined_up(self, profiles: Mapping[Profile, int]) -> None:
        """Jobs with these profiles, so many of each, are on the roll by now: they stand in line here."""
        self._changes += 1
        self._in_line += sum(profiles.values())
        for profile, many in profiles.items():
            self._demand.add(profile.most, many)
        self._change()

    def leave(self, job: Job) -> None:
        """A job left the line; until `ask_no_more` it asks for all it may get as before."""
        self._changes += 1
        self._in_line -= 1
        if not self._in_line:
            self._stands_since_ms = None
        self._roll.remove(job.id)
        self._change()

    def ask_no_more(self, profile: Profile) -> None:
        """A job that stood in line once asks for nothing any more."""
        self._demand.add(profile.most, -1)
        self._change()

    def charge(self, amount: int) -> None:
        """The excess budget pays (or, below zero, gets back)."""
        if amount:
            self._charged += amount
            self._change()

    def use(self, measure: Measure, now_ms: int, *, sign: int) -> None:
        """Tasks that measure so much start (sign +1) or end (-1)."""
        self._account.change(sign * measure.usage, now_ms)
        self._started.add(measure.resources, sign)
        self._change()

    def hold_raced(self, resources: Resources, *, sign: int) -> None:
        """A race begins (sign +1) or is over (-1) for its job: the quota pays, once, at the largest specialisation."""
        self._raced.add(resources, sign)
        self._change()

    def fix(self, usage: int, now_ms: int) -> None:
        """A job without a lifetime started, or (below zero) ended: its min counts as fixed, or no longer."""
        self._fixed.change(usage, now_ms)
        self._change()

    def ran(self, run_ms: int) -> None:
        """An attempt has ended by itself after so long."""
        self._habit = self._habit.after(run_ms)
        self._change()

    def start(self, now_ms: int) -> None:
        """A job of it starts."""
        self._last_start_ms = now_ms
        self._change()

    def stand(self, service: int, now_ms: int) -> None:
        """It stands in line from now on; so much service is put down to it for the time it was away."""
        self._stands_since_ms = now_ms
        self._account.serve(service)
        self._change()

    def close(self) -> None:
        """None of its jobs may start: it stands in line no more."""
        self._stands_since_ms = None
        self._change()

    def recall(self, found: QueueRecalled) -> None:
        """It was so, as was found written down."""
        self._account.recall(found.account)
        self._habit = found.habit
        self._fixed.recall(found.fixed)
        self.active_ms = found.active_ms
        self._last_start_ms = found.last_start_ms
        self._stands_since_ms = found.stands_since_ms if self._in_line else None
        self._change()

    def touch(self, now_ms: int, jobs: int) -> int:
        """The queue is in use; `jobs` of it came (or, below zero, went). How many it has now."""
        self.active_ms = now_ms
        self._jobs += jobs
        self._change()
        return self._jobs


class Books(dict[str, QueueBooks]):
    """The books of all queues, and their states as a snapshot has them: only those that changed are made anew."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: list[QueueBooks] = []
        self._states: dict[str, QueueState] = {}
        self._idle: set[str] = set()
        self._forgets_ms: int | None = None  # when the next of these is forgotten, if that is worked out

    def fork(self, roll: Roll) -> Books:
        """A copy that can go its own way, with its jobs on another roll."""
        other = Books()
        for name, books in self.items():
            other[name] = books.fork(roll, other._changed)
        other._idle = set(self._idle)
        return other

    def set(self, queue: Queue, half_time_ms: int, roll: Roll, now_ms: int) -> None:
        """A queue was made or changed."""
        if queue.name in self:
            self[queue.name].set_queue(queue)
        else:
            self[queue.name] = QueueBooks(queue, half_time_ms, roll, now_ms, self._changed)
            self._idle.add(queue.name)
            self._forgets_ms = None

    def delete(self, name: str) -> None:
        """A queue that has no jobs is no more."""
        gone = self.pop(name)
        assert not gone.jobs, f"queue {name} has jobs"
        self._changed[:] = [books for books in self._changed if books is not gone]
        self._states.pop(name, None)
        self._idle.discard(name)
        self._forgets_ms = None

    def touch(self, queue: str, jobs: int, now_ms: int) -> None:
        """A queue is in use; `jobs` of it came (or, below zero, went)."""
        if not self[queue].touch(now_ms, jobs):
            self._idle.add(queue)
        elif queue in self._idle:
            self._idle.remove(queue)
        else:
            return
        self._forgets_ms = None

    def recall(self, found: QueueRecalled) -> None:
        """A queue was so, as was found written down."""
        self[found.queue].recall(found)
        self._forgets_ms = None

    def note_standing(self, entered: Iterable[tuple[str, int]], closed: Iterable[str], now_ms: int) -> None:
        """Queues came to stand in line, each with service that is put down to it, and others stand there no more."""
        for name, service in entered:
            self[name].stand(service, now_ms)
        for name in closed:
            self[name].close()

    def forgets_ms(self, memory_ms: int, now_ms: int) -> int | None:
        """When the next idle queue stops counting in nominal shares, if queues are remembered for so long."""
        if self._forgets_ms is None or self._forgets_ms <= now_ms:
            later = (self[name].active_ms + memory_ms for name in self._idle)
            self._forgets_ms = min((moment for moment in later if moment > now_ms), default=NEVER_MS)
        return None if self._forgets_ms == NEVER_MS else self._forgets_ms

    def states(self) -> tuple[QueueState, ...]:
        """Every queue as a frozen value."""
        for books in self._changed:
            self._states[books.queue.name] = books.state()
        self._changed.clear()
        return tuple(self._states.values())
