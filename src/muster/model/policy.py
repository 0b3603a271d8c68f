"""Policy: everything an operator may set, with the defaults of production."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import NamedTuple, Protocol

from muster.model.calendar import Window
from muster.model.flow import faded
from muster.model.habit import Habit
from muster.model.jobs import Job, Reservation, least_usage_of
from muster.model.order import ARRIVAL, LG_BITS, Order, Place, lg
from muster.model.placement import TIGHTEST, Placement
from muster.model.queues import MINUTE_MS
from muster.model.resources import DEFAULT_WEIGHTS, MICRO, Weights

SECOND_MS = 1000
DAY_MS = 24 * 60 * MINUTE_MS
EVERYONE = 1 << 30  # reservations: as many as there are waiting jobs
_FINER = 10  # binary digits by which a weight that decides whose turn it is is finer than one that was set


class Preemption(Enum):
    """Whether running jobs may be evicted; dry-run only says who would be."""

    ON = "on"
    OFF = "off"
    DRY_RUN = "dry-run"


class FairBy(Enum):
    """By what it is found whose turn it is: what queues were given since they both wait, or what they used lately."""

    SERVICE = "service"
    FLOW = "flow"


class WidthRule(Enum):
    """Who is made wider: who was served least, or who gains most by it."""

    VIRTUAL_TIME = "virtualTime"
    BENEFIT = "benefit"


class Hold(NamedTuple):
    """How firmly a job holds nodes that are reserved for it: against jobs of no higher class, and against all jobs once
    it has waited for twice as long as makes it aged. Jobs of a firmer hold may take the nodes. Where GPU jobs come
    first, `needs_gpus` makes the difference between jobs of one class."""

    is_for_good: bool
    priority_class: int
    needs_gpus: bool


class Timed(Protocol):
    """What anyone told us about how long a job stays."""

    @property
    def known_ms(self) -> int | None:
        """How long it will run."""

    @property
    def lifetime_ms(self) -> int | None:
        """For how long it is safe from eviction for fairness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules' numbers. Names follow design.md 4."""

    turn_ms: int = SECOND_MS
    half_time_ms: int = 20 * MINUTE_MS
    over_share: int | None = 12 * MICRO // 10
    weights: Weights = DEFAULT_WEIGHTS
    order: Order = ARRIVAL
    fair_by: FairBy = FairBy.SERVICE
    short_first: int = 0  # thousandths: how much queues of short jobs come before others of equal flow per weight
    order_step_ms: int = 10 * MINUTE_MS  # how often an order that changes with time is looked at
    reservations: int = 1  # for each cluster and kind; EVERYONE: conservative backfill
    reservations_in_all: int = 16
    backfill: bool = True
    aging_after_ms: int = DAY_MS
    preemption: Preemption = Preemption.ON
    preempts_for_shares: bool = True  # queues below their share take from those above
    evictions_per_turn: int = 1000
    vain_searches_per_turn: int = 64  # for victims: heads come in the order of their due, so the first have tried
    starts_per_turn: int | None = None
    starts_per_queue: int | None = None
    profiles_deep: int = 100
    gpu_first: bool = True  # jobs without GPUs take nodes with GPUs only after the GPU jobs of their class
    protected_ms: int = 60 * SECOND_MS
    unknown_end_ms: int = 10 * MINUTE_MS
    reestimate_ms: int = 10 * SECOND_MS
    share_memory_ms: int = 30 * DAY_MS
    elastic_every_ms: int | None = 5 * SECOND_MS  # None: widths change by preemption and loss only
    max_load: int = MICRO  # of a cluster, that growth may fill
    uneven_percent: int = 200  # of the least served: who has more gives one up
    width: WidthRule = WidthRule.VIRTUAL_TIME
    resize_cost_ms: int = 0  # for which a job stands still when its width changes
    move_points: int | None = None  # of preference, for which jobs move between clusters; None: nobody moves
    calendar: tuple[Window, ...] = ()
    cores_per_gpu: int = 0  # millicores
    placement: Placement = TIGHTEST
    may_evict_all: bool = True  # who outlives its lifetime; not where a pool forbids preemption

    @property
    def flow_step_ms(self) -> int:
        """How often flows and service are looked at to decide whose turn it is: eight times in a half time."""
        return max(self.half_time_ms // 8, 1)

    @property
    def is_conservative(self) -> bool:
        """Whether every waiting job may have a reservation, also several of one profile."""
        return self.reservations >= EVERYONE

    @property
    def lifetime_bounds(self) -> bool:
        """Whether a job is in the way for as long as its lifetime at most."""
        return self.preemption is Preemption.ON and self.may_evict_all

    def overtaken_from_ms(self, job: Job) -> int | None:
        """From when on whoever starts overtakes a job that waits: a gang that has waited past `agingAfter`.

        Each end lets a single task in somewhere; room for several at once does not come about by itself.
        """
        return job.submit_ms + self.aging_after_ms if job.profile.is_gang else None

    def safe_ms(self, job: Job, now_ms: int, *, is_owed: bool, is_aged: bool) -> int:
        """For how long a job that starts now is not evicted for others: for a while if others made way for it or waited
        (`is_owed`); for as long as it has waited itself if ageing started it, so that it gets done in the end."""
        owed_ms = self.protected_ms if is_owed else 0
        return max(owed_ms, now_ms - job.submit_ms) if is_aged else owed_ms

    def turn_weight(self, weight: int, habit: Habit) -> int:
        """The weight by which queues are compared to find whose turn it is: smaller for queues whose jobs run long.

        weight ÷ (usual run time in seconds) ^ shortFirst. Shares and limits go by the weight itself.
        """
        if not self.short_first:
            return weight
        seconds = max(habit.usual_ms(self.unknown_end_ms) // SECOND_MS, 1)
        return max(faded(weight << _FINER, self.short_first * lg(seconds), 1000 << LG_BITS), 1)

    def per_weight(self, amount: int, weight: int, habit: Habit) -> Fraction:
        """Flow or usage as it is compared to find whose turn it is: the smallest comes first."""
        return Fraction(amount << _FINER if self.short_first else amount, self.turn_weight(weight, habit))

    def order_mark_ms(self, now_ms: int) -> int:
        """Up to when waiting counts in the order inside queues."""
        return now_ms - now_ms % self.order_step_ms if self.order.is_moving else 0

    def place(self, job: Job, now_ms: int) -> Place:
        """Where a queued job stands in its queue; the smallest comes first."""
        score = 0
        if not self.order.is_by_arrival:
            expected_ms = self.unknown_end_ms if job.known_ms is None else job.known_ms
            usage = least_usage_of(job.profile, self.weights)
            waited_ms = max(self.order_mark_ms(now_ms) - job.submit_ms, 0)
            score = self.order.score(usage, expected_ms, waited_ms, job.attained)
        return Place(-job.priority_class, -job.priority, score, job.submit_ms, job.number, job.key)

    def hold(self, job: Job, now_ms: int) -> Hold:
        """How firmly the job holds nodes that are reserved for it."""
        yields = now_ms - job.submit_ms < 2 * self.aging_after_ms
        return Hold(not yields, job.priority_class if yields else 0, yields and self.gpu_first and job.profile.asks_gpu)

    def expected(self, reservation: Reservation, now_ms: int) -> Reservation:
        """The reservation as it is told: a guess that proved wrong is doubled until it lies ahead again."""
        after_ms, start_ms = self.unknown_end_ms, reservation.start_ms
        while start_ms <= now_ms and not reservation.is_firm:
            start_ms, after_ms = reservation.start_ms + after_ms, 2 * after_ms
        return reservation if start_ms == reservation.start_ms else replace(reservation, start_ms=start_ms)

    def bound_ms(self, job: Timed) -> int | None:
        """How long a job can be in the way of a reservation: its run time, else its lifetime; None = for ever.

        A lifetime bounds nothing where nobody may be evicted. Nobody is at the very moment it started, so even a
        lifetime of 0 bounds it by the next.
        """
        if job.known_ms is not None or not self.lifetime_bounds or job.lifetime_ms is None:
            return job.known_ms
        return max(job.lifetime_ms, 1)
