"""How wide elastic jobs run: the width step of a turn (design.md 5.6, paddle-trainingjob.md; docs/adr/0021-width.md).

A job that waits may start in the place of tasks above min, which the most served give up; where more is in use than may
be, they go as well. When filling has come to rest, the least served grow into what is left. When nothing else
changes, the most served give single tasks to the least served. Nobody changes twice within its freezing window.

Pure. Time enters by marks only (clock.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from muster.engine.columns import running_jobs as runs
from muster.engine.elastic.benefit import next_halving_ms
from muster.engine.elastic.clock import Clock
from muster.engine.elastic.dividing import Divider, is_divisible
from muster.engine.elastic.evening import Evener, uneven_from
from muster.engine.elastic.growing import Grower
from muster.engine.elastic.load import Load
from muster.engine.elastic.quotas import cuts_for_quota, may_eat
from muster.engine.elastic.resizes import Resizes
from muster.engine.elastic.sharing import Rights, Sharer
from muster.engine.elastic.shrinking import Cuts, Line, taken
from muster.engine.elastic.swapping import Swaps
from muster.engine.elastic.tree import Tree
from muster.engine.elastic.unit import Unit
from muster.engine.garbage import in_one_go
from muster.engine.horizon import Horizon
from muster.engine.keeping import Spare
from muster.engine.ledger import Ledger
from muster.engine.limits import Lack, lacks_of
from muster.engine.placement import Placer, Tasks
from muster.engine.rooms import Span
from muster.model.jobs import Job, Profile, Running
from muster.model.plan import Why
from muster.model.policy import WidthRule
from muster.model.resources import MICRO
from muster.model.snapshot import Snapshot

VAIN_SEARCHES = 16  # a turn: heads come in the order of their due, so the first have tried


class Cut(NamedTuple):
    """Tasks that a running job gives up."""

    run: Running
    tasks: Tasks


class Yielded(NamedTuple):
    """A job that can start because others shrink: the horizon with it, its tasks, and who gives up what."""

    horizon: Horizon
    tasks: Tasks
    cuts: tuple[Cut, ...]


class Width:
    """The widths of one turn. Every step reads what the steps before it wrote."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, horizon: Horizon) -> None:
        self._policy = snapshot.policy
        self._fleet = snapshot.fleet
        self._whole = snapshot.whole
        self._ledger = ledger
        self._stays = horizon.stays
        self._clock = Clock(snapshot.now_ms, snapshot.policy.elastic_every_ms or 1)
        self._lines: dict[str, Line] = {}
        self._vain = 0
        self._vain_quotas: set[tuple[Profile, str, str]] = set()
        self.owed: list[Lack] = []  # quota for jobs that wait, which elastic jobs could give up sooner or later
        self._has_evicted = False
        self._in_vain: set[tuple[Profile, str]] = set()
        self._rights = Rights(ledger)
        self.resizes = Resizes()
        if self.units:
            horizon.spare = self._spare_on

    # -- who there is ----------------------------------------------------------------------------------

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Every elastic job that runs where we can reach it, as the snapshot has it."""
        is_elastic = self._ledger.shapes.is_elastic
        if self._policy.elastic_every_ms is None or not self._ledger.shapes.has_elastic:
            return {}
        rows = self._stays.residents
        rows = rows[is_elastic[self._stays.column(runs.PROFILE, rows)] > 0]
        found = [(row, self._stays.run(row)) for row in rows.tolist()]
        with in_one_go():
            return {run.job.id: self._unit(run, row) for row, run in found if self._is_within_reach(run)}

    def _is_within_reach(self, run: Running) -> bool:
        cluster, nodes = self._fleet.clusters.get(run.cluster), self._fleet.nodes
        if run.serving is None or cluster is None or cluster.silent:
            return False
        return not self._whole.pools or all(task.node in nodes for task in run.tasks)

    def _unit(self, run: Running, row: int) -> Unit:
        thaws_ms, mark_ms = self._clock.thaws_ms(run), self._clock.mark_ms
        virtual = 0 if run.serving is None else run.serving.virtual_at(mark_ms, run.job.level)
        return Unit(run, row, virtual, thaws_ms, thaws_ms <= mark_ms, run.tasks)

    @cached_property
    def tree(self) -> Tree:
        """Those whose width may change, least served first."""
        return Tree(unit for unit in self.units.values() if unit.is_thawed)

    def reopen(self) -> None:
        """Promises are made anew: who could not be helped before is looked at again."""
        self._in_vain.clear()
        self._vain_quotas.clear()
        self.owed.clear()

    def gone(self, job: str) -> None:
        """Tasks of the job were evicted: its width is not ours to change any more."""
        self._has_evicted = True
        unit = self.units.get(job)
        if unit is not None:
            unit.settled = True
            if unit.run.cluster in self._lines:
                self._lines[unit.run.cluster].leave(unit)

    # -- room for those who wait -----------------------------------------------------------------------

    def may_anyone_shrink(self) -> bool:
        """Whether it is worth looking whether someone could shrink for a job that waits."""
        if not self.units or self._vain >= VAIN_SEARCHES:
            return False
        return any(unit.may_change and unit.has_spare for unit in self.tree.from_the_right())

    @cached_property
    def _clusters(self) -> list[str]:
        return sorted({unit.run.cluster for unit in self.tree.traverse()})

    def _line(self, cluster: str, horizon: Horizon) -> Line:
        if cluster not in self._lines:
            units = [it for it in self.tree.from_the_right() if it.run.cluster == cluster and it.may_change]
            for unit in units:
                unit.in_line = unit.tasks
            self._lines[cluster] = Line(units, horizon)
        return self._lines[cluster]

    def room_for(self, job: Job, cluster: str, horizon: Horizon) -> Yielded | None:
        """The job in the place of tasks that others give up, if that helps."""
        if not self.units or cluster not in self._clusters or (job.profile, cluster) in self._in_vain:
            return None
        line = self._line(cluster, horizon)
        if not len(line) or self._vain >= VAIN_SEARCHES:
            return None
        found = line.yield_to(job, cluster, horizon)
        made = None if found is None else self._with_less(job, horizon, found.cuts, found.tasks)
        if made is None:
            self._vain += 1
            self._in_vain.add((job.profile, cluster))
        return made

    def quota_for(self, job: Job, clusters: Iterable[str], horizon: Horizon) -> tuple[str, Yielded] | None:
        """The job with the part of a quota that others of its queue or user give up, and room from anyone, if that
        helps; and in which cluster. If it does not help by now, nobody grows into what it could have."""
        like = (job.profile, job.queue, job.user)
        if not self.units or like in self._vain_quotas or self._vain >= VAIN_SEARCHES:
            return None
        lacks = lacks_of(job, self._ledger)
        cuts = cuts_for_quota(lacks, (it for it in self.tree.from_the_right() if it.may_change)) if lacks else None
        for cluster in clusters if cuts else ():
            made = self._within_quota(job, cluster, horizon, cuts or [])
            if made is not None:
                return cluster, made
        self._vain_quotas.add(like)
        self._vain += cuts is not None
        if lacks and cuts_for_quota(lacks, (unit for unit in self.units.values() if not unit.settled)) is not None:
            self.owed += lacks
        return None

    def _within_quota(self, job: Job, cluster: str, horizon: Horizon, cuts: Cuts) -> Yielded | None:
        """The job started when these have gone for its quota, and others for room; None, with nothing changed, if a
        promise stands in the way or there is no room."""
        before = [(unit, unit.row, unit.thaws_ms, unit.tasks, unit.went) for unit, _ in cuts]
        trial = horizon.fork_without(())
        self._narrow(trial, cuts)
        for unit, gone in cuts:
            unit.lose(gone)
        self._lines.clear()  # they line up tasks that these had
        is_kept = trial.renew() if horizon.promised else True
        made = self._beside(job, cluster, trial) if is_kept else None
        if made is None:
            for unit, row, thaws_ms, tasks, went in before:
                unit.row, unit.thaws_ms, unit.tasks, unit.went = row, thaws_ms, tasks, went
            self._lines.clear()
            return None
        for unit, _ in cuts:
            self.resizes.note(unit, Why.QUOTA, job.id)
        return made._replace(cuts=(*(Cut(unit.run, gone) for unit, gone in cuts), *made.cuts))

    def _beside(self, job: Job, cluster: str, horizon: Horizon) -> Yielded | None:
        """The job on free room, or in the place of tasks that others give up."""
        tasks = Placer(horizon.span_from_now(job)).place(job.profile, cluster, job.profile.least_widths)
        if tasks is not None:
            return Yielded(horizon, tasks, ())
        found = self._line(cluster, horizon).yield_to(job, cluster, horizon)
        return None if found is None else self._with_less(job, horizon, found.cuts, found.tasks)

    def _with_less(self, job: Job, horizon: Horizon, cuts: Cuts, wanted: Tasks) -> Yielded | None:
        """The job started where these tasks were; None, with nothing changed, if a promise stands in the way."""
        before = [(unit, unit.row, unit.thaws_ms) for unit, _ in cuts]
        trial = horizon.fork_without(()) if horizon.promised else horizon
        self._narrow(trial, cuts)
        is_kept = trial.renew() if horizon.promised else True
        tasks = taken(trial.span_from_now(job), job, wanted)
        if tasks is None or not is_kept:
            assert trial is not horizon, f"{job.id}: room was found that is not there"
            for unit, row, thaws_ms in before:
                unit.row, unit.thaws_ms = row, thaws_ms
            return None
        return Yielded(trial, tasks, self._cut(cuts, Why.ROOM, job.id))

    def _narrow(self, horizon: Horizon, cuts: Cuts) -> None:
        """Those who run on with less, on the horizon."""
        for unit, tasks in cuts:
            left = tuple(task for task in unit.tasks if task not in tasks)
            unit.row = horizon.narrow(unit.row, replace(unit.run, tasks=left), tasks)
            unit.thaws_ms = self._clock.thaws_again_ms(unit.run)

    def _cut(self, cuts: Cuts, why: Why, by: str = "") -> tuple[Cut, ...]:
        """Those who give something up do so for good."""
        for unit, tasks in cuts:
            unit.lose(tasks)
            self.resizes.note(unit, why, by)
            if unit.run.cluster in self._lines:
                self._lines[unit.run.cluster].leave(unit, tasks)
        return tuple(Cut(unit.run, tasks) for unit, tasks in cuts)

    # -- too much in use -------------------------------------------------------------------------------

    def make_way(self, horizon: Horizon) -> tuple[Cut, ...]:
        """Who gives up what because more is in use than may be; all of it is done on the horizon."""
        if not self.units or not len(self.tree):
            return ()
        if horizon.withheld is None and self._policy.max_load == MICRO and not horizon.now.has_debt():
            return ()
        load = self._load(horizon)
        if not load.is_over:
            return ()
        cuts: Cuts = []
        for unit in self.tree.from_the_right():
            spare = unit.surplus() if unit.may_change else ()
            gone = [task for task in spare if self._is_too_much(load, unit, task.group)]
            if gone:
                cuts.append((unit, tuple(gone)))
        self._narrow(horizon, cuts)
        return self._cut(cuts, Why.LOAD)

    def _is_too_much(self, load: Load, unit: Unit, group: str) -> bool:
        """Whether one such task must go; then it counts as gone."""
        asks = unit.run.job.profile.group(group).request.resources
        if not load.short(unit.run.cluster, asks):
            return False
        load.change(unit.run.cluster, asks, +1)
        return True

    def _load(self, horizon: Horizon) -> Load:
        return Load(horizon.now, self._policy, None if horizon.withheld is None else horizon.withheld.lacking)

    # -- growth ----------------------------------------------------------------------------------------

    def grow(self, horizon: Horizon, *, anyone_waits: bool) -> None:
        """Whoever may takes what nobody else can use; then the most served give to the least served."""
        if not self.units or not len(self.tree):
            return
        load = self._load(horizon)
        self._restore(horizon, load)
        grower = Grower(horizon, self._ledger, load, lambda unit: self._clock.thaws_again_ms(unit.run))
        swaps = Swaps(grower, load, self._ledger, horizon.now, is_strict=anyone_waits)
        evener = Evener(self._by_turns, swaps, self._rights, self._policy.uneven_percent)
        self._settle_bound(horizon)
        self._divide(grower, load, horizon, is_strict=anyone_waits)
        grower.grow(unit for unit in self._by_turns.traverse() if unit.may_change and unit.is_untouched)
        self._note(Why.GROWTH)
        if Sharer(self._by_turns, swaps, self._rights).share_out():
            self._note(Why.SHARE)
        while evener.even_out() and not anyone_waits:  # what is left over of a swap may do for others
            self._note(Why.EVENNESS)
            grower.grow(unit for unit in self._by_turns.traverse() if unit.may_change and unit.is_untouched)
            self._note(Why.GROWTH)
        self._note(Why.EVENNESS)

    def _divide(self, grower: Grower, load: Load, horizon: Horizon, *, is_strict: bool) -> None:
        """Where widths go by benefit, room is divided by it until nobody changes any more."""
        divider = Divider(grower, load, self._ledger, horizon.now, self._clock, self._policy, is_strict=is_strict)
        while self._divisible and divider.divide(self._divisible):
            self._note(Why.BENEFIT)

    @cached_property
    def _divisible(self) -> list[Unit]:
        """Those whose width goes by benefit."""
        if self._policy.width is not WidthRule.BENEFIT:
            return []
        return [unit for unit in self.tree.traverse() if is_divisible(unit)]

    @cached_property
    def _by_turns(self) -> Tree:
        """Those who grow by turns, the least served first: all others."""
        if not self._divisible:
            return self.tree
        divisible = set(self._divisible)
        return Tree(unit for unit in self.tree.traverse() if unit not in divisible)

    def _note(self, why: Why) -> None:
        """Whoever changed since the last note did so for this reason."""
        for unit in self.tree.traverse():
            if unit.came or unit.went:
                self.resizes.note(unit, why)

    def _restore(self, horizon: Horizon, load: Load) -> None:
        """Who gave up a task for whose room there is no need after all keeps it: another's was larger.

        Not in the place of someone who was evicted for another: that would not be theirs.
        """
        if self._has_evicted:
            return
        span = Span([horizon.now, *(it.rooms for it in horizon.promised.values())])
        for unit in self.resizes.of(Why.ROOM):
            for task in unit.went:
                group = unit.run.job.profile.group(task.group)
                asks = group.request.resources
                is_allowed = load.takes(unit.run.cluster, asks) and self._ledger.has_quota_for(unit.run.job, asks)
                if is_allowed and span.fits(task.node, group, task.devices):
                    span.put(task.node, group, task.devices)
                    load.change(unit.run.cluster, asks, -1)
                    self._ledger.widen(unit.run.job, (task,))
                    unit.keep(task)

    def _settle_bound(self, horizon: Horizon) -> None:
        """Who is to shrink for a promise, or for a quota, must be able to when it is due; queues that are cordoned get
        nothing."""
        cordoned = {name for name, holding in self._ledger.queues.items() if holding.state.queue.cordoned}
        sheds = [(it.sheds, it.due_ms) for it in horizon.promised.values() if it.sheds]
        for unit in self.tree.traverse() if cordoned or sheds or self.owed else ():
            job, again_ms = unit.run.job, self._clock.thaws_again_ms(unit.run)
            is_bound = any(job.id in names and start_ms < again_ms for names, start_ms in sheds)
            unit.settled = unit.settled or is_bound or job.queue in cordoned or may_eat(unit, self.owed)

    # -- promises --------------------------------------------------------------------------------------

    @cached_property
    def _spare(self) -> dict[str, list[Unit]]:
        """The units with tasks above min on each node, most served first."""
        on: dict[str, list[Unit]] = {}
        for unit in sorted(self.units.values(), key=lambda unit: unit.order, reverse=True):
            for node in sorted({task.node for task in unit.surplus()}):
                on.setdefault(node, []).append(unit)
        return on

    def _spare_on(self, node: str, moment_ms: int) -> Iterable[Spare]:
        """Tasks on the node that may be taken to be gone by a later moment, for whom that room is promised to."""
        for unit in self._spare.get(node, ()):
            if not unit.settled and unit.thaws_ms <= moment_ms:
                for task in unit.surplus():
                    if task.node == node:
                        yield Spare(unit.run.job.id, unit.run.job.profile.group(task.group), task)

    # -- time ------------------------------------------------------------------------------------------

    def wake_ms(self, horizon: Horizon) -> int | None:
        """The first later moment at which time alone could change a width."""
        moments = [window.next_edge_ms(self._clock.now_ms) for window in self._policy.calendar]
        moments += [unit.thaws_ms for unit in self.units.values() if unit.thaws_ms > self._clock.now_ms]
        is_guess = any(not it.reservation.is_firm for it in horizon.promised.values())
        is_guess &= not self._policy.order.is_by_arrival  # who was admitted keeps its start
        if is_guess and any(unit.has_spare for unit in self.units.values()):
            # A promise that rests on guesses moves away, past moments from which others may shrink for it.
            step_ms = self._policy.reestimate_ms
            moments.append((self._clock.now_ms // step_ms + 1) * step_ms)
        if len(self.resizes):
            moments.append(self._clock.mark_ms + self._clock.every_ms)  # who changes now is looked at again anyway
        elif self.units:
            moments += self._halvings_ms()
            percent = self._policy.uneven_percent
            marks = uneven_from(self._by_turns, self._rights, percent, self._clock.every_ms)
            if marks is not None:
                moments.append(self._clock.mark_ms + max(marks, 1) * self._clock.every_ms)
        return min(moments, default=None)

    def _halvings_ms(self) -> list[int]:
        """The marks from which claims of those whose width goes by benefit are smaller."""
        found = [next_halving_ms(unit.run, self._clock.mark_ms) for unit in self._divisible]
        return [self._clock.first_mark(moment_ms) for moment_ms in found if moment_ms is not None]
