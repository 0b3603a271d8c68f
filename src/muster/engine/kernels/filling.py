"""Progressive filling over columns (design.md 4.3): the hungriest queue's head starts, or is set aside.

The loop goes on by itself as long as nothing needs a careful look: a job that fits starts; one for which there is no
room, no reservation and nobody who would have to give way is set aside. Everything else goes back to the planner,
which decides and calls again.

This module says what that works on; the kernels are next to it:

    offering    each queue's next job
    hunger      whose head is next
    care        which heads the planner must look at
    hoping      whether who may take from others could have room by that
    starting    the loop
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.engine.kernels.placing import Cells

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

NONE = -1
CHARGED = -2  # of a limit's lifetime: whoever has one other than 0
NOBODY = -1  # nobody of this queue and profile is set aside
ALWAYS = 1 << 62  # more starts than there will ever be

DONE, LIMITED, CAREFUL, TIED, FULL_OUTPUT = range(5)
"""Why the loop came back: nobody is left to offer; a limit may hold the head back; the head needs a careful look,
whether it could start or not; two jobs of one moment must be told apart; the output is full."""

NO_ROOM, WOULD_DELAY, NEVER_FITS, OVER_SHARE = range(4)
"""Why a head was set aside; the last one closes its queue."""


UNKNOWN, CLOSED, STANDS = range(3)
"""Of a queue in line: none of its jobs was looked at; those that were can not start, whatever room there is; some can
if there is room."""


class Roll(NamedTuple):
    """The columns of columns.queued_jobs. -1 stands for none: no lifetime, no known run time, no next row."""

    lane_queue: Ints
    lane_profile: Ints
    lane_class: Ints
    lane_priority: Ints
    lane_attained: Ints
    lane_first: Ints
    lane_next: Ints  # the next lane of the same queue
    lane_count: Ints
    lane_shortest: Ints  # nobody of the lane is in the way for less
    lane_asks: Ints  # whether a rule may hold for its jobs that only the planner applies (muster.engine.columns.known)
    queue_lane: Ints  # the first lane of each queue
    submit: Ints
    rank: Ints  # order among jobs of one submit time; 0: not worked out yet
    lifetime: Ints
    known: Ints
    user: Ints
    next: Ints


class Lines(NamedTuple):
    """What each queue may still offer. Lanes stand in a heap by their next job."""

    heap: Ints
    begin: Ints
    many: Ints
    cursor: Ints
    first: Ints  # by lane: nobody before is still in line
    order: Ints  # by lane, where its next job stands: class and `late`, priority, score, submit time, rank
    late: Ints  # by lane: whether its jobs are offered after the others of their class, since they take GPU nodes
    gpus: Flags  # whether any GPU job stands in these lines
    out: Flags
    is_asked: Flags  # by queue: whether any of its lanes is in these lines
    aside: Ints  # queue x profile: who may be in the way for as long, or longer, is set aside
    aside_count: Ints
    is_deep: Flags  # by queue: whether lanes of other profiles than these have left
    head: Ints
    stale: Flags
    first_head: Ints
    tie: Ints  # the submit time two jobs of which could not be told apart, or -1
    queues: Ints  # those that offer something in a heap, the one whose turn it is first
    offering: Ints  # how many they are
    due: Ints  # by queue: what is compared, per weight, to find whose turn it is
    usage_with: Ints
    passed_class: Ints  # by queue: of the last head passed over before its turn came,
    passed_usage: Ints  # and the most that one of this class would have added
    stands: Flags  # by queue: whether it was found to have jobs that may start


class Limits(NamedTuple):
    """Limits that were hit, by queue: whom they hold back (-1: whoever it is; a lifetime may be CHARGED)."""

    many: Ints
    user: Ints
    resource: Ints
    profile: Ints
    lifetime: Ints


class Shapes(NamedTuple):
    """What profiles ask for, by number."""

    usage: Ints
    least: Ints
    weighed: Ints  # usage, resource by resource
    asks_gpu: Ints
    is_rigid: Ints
    never_fits: Ints
    is_ours: Flags  # whether jobs with it stand in these lines
    is_full: Ints  # there is no room for it, promised or not
    scarce: Ints  # the resource it lacks, if it was worked out after `scarce_at` starts of this turn
    scarce_at: Ints
    delays: Ints  # at how few promised moments it finds no room, worked out after `delays_at` starts
    delays_at: Ints


class Books(NamedTuple):
    """What queues and users hold; see muster.engine.ledger."""

    weight: Ints
    turn_weight: Ints  # the same where it is found whose turn it is (muster.model.policy)
    name_order: Ints
    lead: Ints  # in service, over the queue in line that was served least (muster.engine.columns.leads)
    last_start: Ints  # when a job of it was last started; below all moments if none ever was
    memory: Ints  # one number: what usage now counts beside leads; 0 where queues are compared by flow
    cordoned: Ints
    asks_planner: Ints  # whether a rule may hold for the queue that only the planner applies
    flow: Ints
    usage: Ints
    started_usage: Ints
    started: Ints
    held: Ints
    quota: Ints
    fixed_flow: Ints
    fixed_usage: Ints
    fixed_limit: Ints
    nominal: Ints
    has_budget: Ints
    starts: Ints
    user_held: Ints
    user_quota: Ints
    user_has_quota: Ints
    user_asks_planner: Ints
    quotas: Ints  # how many users have any of these: mostly none, and then no job's user need be looked up


class Rules(NamedTuple):
    """The numbers of a policy that filling needs."""

    asks_planner: bool  # whether the policy has a rule that only the planner applies
    now: int
    profiles_deep: int
    lifetime_bounds: bool
    backfills: bool
    starts_per_turn: int
    starts_per_queue: int
    is_scored: bool  # and these are the exponents of muster.model.order
    by_expected: int
    by_size: int
    by_waited: int
    by_sojourn: int
    by_attained: int
    patience_ms: int
    floor_ms: int
    unknown_ms: int  # what a run time is taken to be that nobody knows
    mark: int  # up to when waiting counts
    gpu_first: bool  # whether jobs without GPUs take nodes with GPUs only after the GPU jobs of their class


class Offers(NamedTuple):
    """Who may give way, queue by queue: each has the moves (placing.py) up to its own of `last`.

    A queue is uncounted if they are many, or if what they leave is not what they have: then nobody of it is listed.
    """

    first: Ints  # by queue, and the end
    is_uncounted: Flags
    rows: Ints  # of muster.engine.stays
    gives: Flags  # by row: those who left give no more
    class_of: Ints
    priority: Ints
    profile: Ints
    until: Ints  # when they are taken to be there when promises are due
    last: Ints
    moves: Cells
    left: Cells  # see hoping.py


class Ceilings(NamedTuple):
    """The most that could be free beside firm promises on the nodes they count on, when each of them is due: once all
    have left who leave by then, or may be taken to."""

    starts: Ints
    at: Ints  # by node: its place among these nodes, or -1
    most: Ints  # by moment; place and dimension. May be less than nothing
    left: Ints  # the same of those who would go


class Care(NamedTuple):
    """Who must go back to the planner when blocked: those who may reserve, or may take from others."""

    may_reserve: Ints  # by kind: 0 CPU jobs, 1 GPU jobs
    is_below: Ints  # by queue: whether it has less than its entitled share
    gives: Ints  # by queue: whether anything of it may give way
    entitled: Ints  # by queue and resource
    gives_class: Ints  # by queue: the lowest (class, priority) of its own that would give way
    gives_priority: Ints
    lowest_class: int  # of anyone who is not safe; whoever only borrows is below all
    was_overtaken: Flags  # by row
    offers: Offers
    ceilings: Ceilings
    may_make_room: bool  # whether anyone at all may take from others: who finds no room now may find some later
    asks_planner: bool  # whether a rule that only the planner applies may let someone take from others


class Field(NamedTuple):
    """Where jobs go: the cells of placing.py with all promised moments on trial, and what profiles ask of them.

    A profile's groups, at their min, are those from first_group[profile] on; its clusters, most preferred first, those
    from first_cluster[profile] on. `starts` are the promised moments, in order; signs[n] tells the first n + 1 moments.
    For those who borrow, clusters are pools that lend: of equal `preference`, for jobs without GPUs those without any
    first, then the one with most `idle` usage of what the job asks for, then the one with the fewest `tasks`; each of
    one of the `pools`, of which no more than `spare` is lent. For all others these are empty.
    """

    ground: Cells
    books: Cells
    by_tightness: Cells
    circles: Cells
    trial: Cells
    first_group: Cells
    groups: Cells
    widths: Cells
    first_cluster: Cells
    clusters: Cells
    starts: Cells
    signs: Cells
    preference: Cells  # beside clusters
    has_gpus: Cells  # by cluster
    idle: Cells  # by cluster and resource
    tasks: Cells  # by cluster
    pools: Cells  # by cluster
    spare: Cells  # by pool and resource


class Started(NamedTuple):
    """What the loop started, and whom it set aside. `size`: starts, tasks, asides, starts of the whole turn."""

    size: Ints
    row: Ints
    cluster: Ints
    above_nominal: Flags
    first_task: Ints
    tasks: Ints
    aside_row: Ints
    aside_why: Ints
    aside_flow: Ints  # what jobs without a lifetime would bring their queue to, if that is why
