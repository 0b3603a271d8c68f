"""The one thread that decides: news in, plan, rows on their way to the store.

Whatever changes the world comes as `News` and waits in line for the next turn. A turn takes all that is there, decides,
and hands over what follows to be written in one transaction (muster.server.settling); only then is anyone told, so that
what was told is never lost. The next turn is decided meanwhile, and written after it. While the store is down the same
rows are tried again and nothing more is decided.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Condition, Thread
from time import monotonic
from typing import Any

from muster.agent.protocol import Report
from muster.model import events as ev
from muster.server.board import Board
from muster.server.cordons import Cordons
from muster.server.leases import ACCEPTED, ENDED, RUNNING, Leases, reported
from muster.server.limits import Limits
from muster.server.memory import Memory
from muster.server.metering import Meter, Reading
from muster.server.news import News, Turned
from muster.server.notes import Notes
from muster.server.reasons import WAITING, Reasons
from muster.server.recording import Recording
from muster.server.room import Room
from muster.server.settling import Counts, Settling
from muster.server.world import World
from muster.server.writing import Written
from muster.state.run import Moment
from muster.store.batch import Batch
from muster.store.errors import StoreDown
from muster.store.rows import LeaseChange, LeaseRow, Thing, TurnRow
from muster.store.writer import Writer

log = logging.getLogger(__name__)

SHORTEST_GAP_S = 0.02  # between turns: what comes meanwhile is decided together


class Turns:
    """Takes turns from `start` to `stop`."""

    def __init__(
        self,
        world: World,
        leases: Leases,
        writer: Writer,
        clock: Callable[[], int],
        room: Room,
        reasons: Reasons,
        limits: Limits,
        cordons: Cordons,
        notes: Notes,
        recording: Recording | None = None,
    ) -> None:
        self.world = world
        self.reasons = reasons
        self._memory = Memory(world.state)
        self.board = Board(world)
        self.leases = leases
        self.counts = Counts()
        self._clock = clock
        self._now_ms = 0
        self._news: list[News] = []
        self._changed = Condition()
        self._is_stopping = False
        self._last_turn = 0.0
        self._over: deque[tuple[int, str]] = deque()  # jobs by when they ended
        self._limits = limits
        self._cordons = cordons
        self._notes = notes
        self._recording = recording
        self._lost: set[str] = set()  # clusters whose jobs run elsewhere as of this turn
        self._settling = Settling(writer, leases, room, self.counts)
        self._thread = Thread(target=self._loop, name="turns", daemon=True)
        self._meter = Meter(self.now_ms())
        self._meter.look(world.state.fleet, (), self._now_ms)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the turns that are under way; news that is left waits for the next start."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._settling.give_up()
        if self._thread.ident is not None:
            self._thread.join()
        self._settling.stop()

    def put(self, news: News, *, is_durable: bool = False) -> Future[int]:
        """Have something considered in the next turn. While the store is down, only what is durable already."""
        with self._changed:
            refused = self.failure
            if refused is None and self.is_down and not is_durable:
                refused = StoreDown("turns wait for it")
            if refused is not None:
                news.done.set_exception(refused)
                return news.done
            self._news.append(news)
            if len(self._news) == 1:  # for more of it nobody need be woken: turns are on their way
                self._changed.notify_all()
        return news.done

    @property
    def is_down(self) -> bool:
        """Whether turns wait for the store."""
        return self._settling.is_down

    def now_ms(self) -> int:
        """The time, which never goes back."""
        self._now_ms = max(self._now_ms, self._clock())
        return self._now_ms

    def metered(self) -> Reading:
        """What there was until now and what became of it. Not while the world changes."""
        return self._meter.read(self.leases.live.values(), self.now_ms())

    # -- the loop ----------------------------------------------------------------------------------------

    def _loop(self) -> None:
        news: list[News] | None = []
        try:
            while (news := self._next_news()) is not None:
                self.take(news)
        except BaseException as err:  # a fault of ours: say so, and refuse whatever waits or comes
            log.exception("turns have stopped")
            with self._changed:
                self.failure = err
                left, self._news = [*(news or ()), *self._news], []
            for one in left:
                one.done.set_exception(err)

    def _next_news(self) -> list[News] | None:
        """What is there to decide on, as soon as there is something or time alone may change things; None: the end."""
        while True:
            due_s = self._due_s()  # outside of the lock: someone may be looking at the world
            with self._changed:
                if self._is_quiet() and (due_s is None or due_s > 0):
                    self._changed.wait(due_s)
                    if self._is_quiet():
                        continue
                self._gather()
                if self._is_stopping:
                    return None
                news, self._news = self._news, []
                return news

    def _is_quiet(self) -> bool:
        return not self._is_stopping and not self._news

    def _gather(self) -> None:
        """Wait a little for more, so that what comes together is decided together."""
        until = self._last_turn + SHORTEST_GAP_S
        while not self._is_stopping and (left := until - monotonic()) > 0:
            self._changed.wait(left)

    def _due_s(self) -> float | None:
        with self.world.lock:
            moments = [
                self.world.next_ms(),
                self._next_silence(),
                self.reasons.due_ms(),
                self.leases.noted_due_ms(),
                self._cordons.next_ms(),
            ]
        known = [moment for moment in moments if moment is not None]
        return (min(known) - self._clock()) / 1000 if known else None

    def _next_silence(self) -> int | None:
        """When an agent that says nothing more will be taken to be silent."""
        clusters = self.world.state.machines.clusters
        heard = [
            line.seen_ms
            for name, line in self.leases.lines.items()
            if name in clusters and not clusters[name].silent and line.seen_ms
        ]
        soonest = min(heard) + self._limits.silent_ms if heard else None
        if not self.world.reruns:
            return soonest
        silent = [
            line.seen_ms + self._limits.lost_ms
            for name, line in self.leases.lines.items()
            if name in clusters and clusters[name].silent and line.seen_ms + self._limits.lost_ms > self._now_ms
        ]
        return min(silent + ([] if soonest is None else [soonest]), default=None)

    def settle(self) -> None:
        """Until all turns that were taken are durable."""
        self._settling.wait()

    def take(self, news: Sequence[News]) -> Moment:
        """One turn; it is durable after `settle`, or when its news is done."""
        now_ms = self.now_ms()
        began = monotonic()
        with self.world.lock:
            written = Written(self.leases, now_ms, self.world.state)
            happened = [event for one in news for event in self._events_of(one, written, now_ms)]
            happened += self._losses(written, now_ms)
            for row in self.leases.noted(now_ms):
                written.put(written.lease(row.job, row.attempt) or row)
            happened += self._drains(news, now_ms)
            if self._recording is not None:
                self._recording.begin_turn(self.world.state)
            moment = self.world.turn([*happened, *self._silences(now_ms)], now_ms)
            if self._recording is not None:
                self._recording.end_turn()
            written.add_all(
                (it for it in moment.events if not isinstance(it, ev.JobSubmitted)),  # was written down before
                {name: (job.queue, job.job_set) for name, job in moment.over.items()},
            )
            written.things += self._cordons.told(moment.events, list(written.leases.values()))
            actions = Counter(type(action).__name__.lower() for action in moment.plan.actions)
            self.counts.actions.update(actions)
            self._forget(moment, now_ms)
            self.board.turn_is_over()
            written.remember(self._memory.changed())
            written.remember(self._noted(moment))
            said = self.reasons.after(moment)
            leases, lease_changes = written.lease_rows()
            self.leases.decide(written.leases.values())
            self._meter.look(self.world.state.fleet, written.leases.values(), now_ms)
        self._last_turn = monotonic()
        took_s = self._last_turn - began
        self.counts.seconds["decide"] += took_s
        batch = _batch(
            news, written, leases, lease_changes, moment, self._recorded(moment, actions, said, len(news), took_s)
        )
        if batch.turn is not None:
            self.reasons.turn += 1
        lost, self._lost = self._lost, set()
        self._settling.put(Turned(batch=batch, news=news, lost=lost))
        return moment

    def _noted(self, moment: Moment) -> tuple[list[Thing], list[tuple[str, str]]]:
        """What people said of jobs, to be written down, and what went with its job."""
        changed = (it.job for it in moment.events if isinstance(it, ev.JobChanged))
        alive = {name: job for name in changed if (job := self.world.state.find(name)) is not None}
        return self._notes.changed(moment.events, alive)

    def _recorded(
        self, moment: Moment, actions: Mapping[str, int], said: Mapping[str, Any] | None, news: int, took_s: float
    ) -> TurnRow | None:
        """What is written down of a turn: nothing if it did nothing, and `said` nothing new of those who wait."""
        if not moment.events and not actions.get("start") and said is None:
            return None
        body = {"news": news, "actions": dict(actions), "started": moment.plan.placed_by_queue()}
        waiting = said or self.reasons.as_before()
        if waiting is not None:
            body[WAITING] = waiting
        return TurnRow(at_ms=moment.now_ms, took_ms=int(took_s * 1000), body=body)

    def _forget(self, moment: Moment, now_ms: int) -> None:
        """Jobs that were over long ago are remembered by nobody."""
        self._over.extend((now_ms, name) for name in moment.over)
        while self._over and self._over[0][0] + self._limits.keep_ms < now_ms:
            name = self._over.popleft()[1]
            self.world.state.jobs.forget(name)
            self.world.reruns.discard(name)

    # -- news --------------------------------------------------------------------------------------------

    def _events_of(self, one: News, written: Written, now_ms: int) -> Iterable[ev.Event]:
        yield from one.events
        if one.heard is None:
            return
        clusters = self.world.state.machines.clusters
        if one.heard.cluster in clusters and clusters[one.heard.cluster].silent and not one.heard.is_gone:
            yield ev.ClusterSilent(cluster=one.heard.cluster, silent=False)
        for report in one.heard.reports:
            row = written.lease(report.job, report.attempt)
            if row is not None and row.cluster == one.heard.cluster and row.state != ENDED:
                after = reported(row, report, now_ms)
                if after.state in (ACCEPTED, RUNNING) and (report.job, report.attempt) not in written.leases:
                    self.leases.note(after, now_ms)
                else:
                    written.put(after)
                yield from _meaning(row, after, report)
        if one.heard.is_all:
            lost = self.leases.of_cluster(one.heard.cluster)
            if not one.heard.is_gone:
                lost = self.leases.lost_by(one.heard.cluster, one.heard.reports)
            for row in lost:
                yield from _lost(row, written, now_ms)

    def _losses(self, written: Written, now_ms: int) -> Iterable[ev.Event]:
        """Jobs that are to run again because their cluster has been silent for too long."""
        silent = {
            name
            for name, line in self.leases.lines.items()
            if line.seen_ms and line.seen_ms + self._limits.lost_ms <= now_ms
        }
        if not silent or not self.world.reruns:
            return
        for row in list(self.leases.live.values()):
            if row.cluster in silent and row.job in self.world.reruns and row.state != ENDED:
                self._lost.add(row.cluster)
                yield from _lost(row, written, now_ms)

    def _drains(self, news: Iterable[News], now_ms: int) -> list[ev.Event]:
        """What must leave its node by now."""
        for one in news:
            self._cordons.hear(one.things, one.gone)
        return self._cordons.due(now_ms)

    def _silences(self, now_ms: int) -> Iterable[ev.Event]:
        """Agents that have said nothing for too long."""
        for name, cluster in self.world.state.machines.clusters.items():
            line = self.leases.lines.get(name)
            if not cluster.silent and line is not None and line.seen_ms + self._limits.silent_ms <= now_ms:
                yield ev.ClusterSilent(cluster=name, silent=True)


def _lost(row: LeaseRow, written: Written, now_ms: int) -> Iterable[ev.Event]:
    """An attempt that nobody has any more."""
    gone = Report(job=row.job, attempt=row.attempt, stage="ended", result="lost")
    written.put(after := reported(row, gone, now_ms))
    return _meaning(row, after, gone)


def _meaning(row: LeaseRow, after: LeaseRow, report: Report) -> Iterable[ev.Event]:
    """What an agent's report means for the job. Of an attempt that was to stop we only needed to hear that it did."""
    if row.state == "stopping":
        return
    for task in report.failed:
        yield ev.TaskFailed(job=row.job, group=task.group, index=task.index)
    if after.state != ENDED:
        return
    if report.result == "succeeded":
        yield ev.JobSucceeded(job=row.job, attempt=row.attempt)
    elif report.result == "failed":
        yield ev.JobFailed(job=row.job, attempt=row.attempt, cause=report.message or "failed")
    else:
        yield ev.JobRequeued(job=row.job, attempt=row.attempt, cause="lost")


def _batch(
    news: Sequence[News],
    written: Written,
    leases: Sequence[LeaseRow],
    lease_changes: Sequence[LeaseChange],
    moment: Moment,
    turn: TurnRow | None,
) -> Batch:
    return Batch(
        at_ms=moment.now_ms,
        events=written.events,
        changes=written.changes,
        leases=leases,
        lease_changes=lease_changes,
        things=[*(thing for one in news for thing in one.things), *written.things],
        gone=[*(pair for one in news for pair in one.gone), *written.gone],
        turn=turn,
        audit=[row for one in news for row in one.audit],
    )
