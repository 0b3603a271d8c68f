"""Turns that are decided at a glance: on one node, with one promise at most, where nobody asks why others wait.

Most turns of a long simulation are of this kind: an attempt ended, or a job came, and it is plain who starts in the
room there is, if anyone does. Where several queues could start someone, they are weighed against each other as in every
turn, over a few amounts instead of rooms. Whatever is out of the ordinary is left to a whole turn: limits, lifetimes,
gangs, GPUs, guesses (ADR 0028).
"""

from __future__ import annotations

import numpy as np

from muster.engine.columns import Columns
from muster.engine.kernels import glancing
from muster.engine.kernels.filling import Books
from muster.engine.kernels.jit import Face, suited_to
from muster.engine.lines import Lines
from muster.engine.shares import Shares
from muster.engine.sole import Sole
from muster.engine.table import NONE
from muster.model.plan import Plan
from muster.model.policy import Policy
from muster.model.snapshot import Snapshot


def glance(snapshot: Snapshot, ahead: int) -> Plan | None:
    """The plan of a turn without verdicts; None if it takes a whole turn to tell."""
    node = _sole(snapshot) if _is_ordinary(snapshot) else None
    if node is None:
        return None
    face = suited_to(max(len(node.roll), ahead))
    fate = _at_once(node, face)
    many, is_promised = int(node.facts[glancing.MANY]), node.is_promised
    if fate == glancing.UNKNOWN:
        return None
    in_line = len(node.roll) + (fate == glancing.STARTS)
    if many == glancing.UNSURE or (many < in_line and not is_promised):
        return _weighed(node, face)
    return node.plan(fate)


def _is_ordinary(snapshot: Snapshot) -> bool:
    """Whether nothing but room, promises and the order of arrival decides who starts."""
    policy, fleet = snapshot.policy, snapshot.fleet
    if len(fleet.nodes) != 1 or len(fleet.clusters) != 1 or fleet.closed or fleet.pools or len(snapshot.pending) > 1:
        return False
    if snapshot.held or snapshot.evicted or snapshot.users or snapshot.borrowers:
        return False
    if any(it.reservation is None for it in snapshot.pending):
        return False
    return is_room_all_that_counts(policy)


def is_room_all_that_counts(policy: Policy) -> bool:
    """Whether a policy has no more to say of who starts than room, the one promise and the order of arrival do."""
    if not policy.backfill or policy.reservations != 1 or not policy.order.is_by_arrival:
        return False
    if policy.calendar or policy.over_share is not None or policy.move_points is not None:
        return False
    return policy.starts_per_turn is None and policy.starts_per_queue is None


def _sole(snapshot: Snapshot) -> Sole | None:
    """The only node, if all who run or wait are tasks of amounts alone, and no limit holds anyone back."""
    columns, policy = snapshot.columns, snapshot.policy
    if not isinstance(columns, Columns):
        return None
    roll, running, floor = columns.roll.seen(), columns.runs.seen(), columns.floor.seen()
    if roll is None or running is None or floor is None or len(roll.classes) > 1 or roll.has_lifetimes:
        return None
    shapes, free = roll.shapes(policy.weights), floor.sole_free()
    if free is None or not shapes.are_lone or not shapes.judge(snapshot.fleet, roll.waiting_with(), roll.mix):
        return None
    roll.carried.catch_up(snapshot, roll, shapes)
    return None if roll.carried.has_limits else Sole(snapshot, roll, running, shapes, free)


def _at_once(node: Sole, face: Face) -> int:
    """What becomes of the promise, and who starts if queues need not be weighed against each other."""
    columns = node.roll.columns()
    is_out = np.zeros(len(columns.submit), np.uint8)
    look = face(glancing.starts_at_a_glance)
    return look(columns, node.running, node.shapes.least, node.amounts, node.facts, is_out, node.started)


def _weighed(node: Sole, face: Face) -> Plan | None:
    """The plan where they must be, as in every turn; None if some job needs a careful look."""
    node.open()
    fate = face(glancing.open_room)(node.running, node.shapes.least, node.amounts, node.facts, node.started)
    roll, policy, snapshot = node.roll, node.policy, node.snapshot
    shares = Shares(snapshot, roll.carried.divisor(snapshot), all_fit=True, known=roll.carried.known)
    books = roll.carried.opened(node.now_ms, shares.usage, shares.divisor, policy, max(len(roll.users), 1))
    for pending in snapshot.pending:
        queue, usage = roll.queues[pending.job.queue], node.shapes.usage[node.shapes.number(pending.job.profile)]
        books.usage[queue] += usage
        books.flow[queue] = max(books.flow[queue], books.usage[queue])
        books.started_usage[queue] += usage * (fate == glancing.STARTS)
    lines = Lines(roll, node.shapes, policy, node.now_ms, face, 1)
    lines.reopen()
    if not node.is_promised:
        node.facts[[glancing.AGED, glancing.FIRST]] = _aged(node, lines, books, shares)
    is_done = lines.fill_alone(books, node.running, node.amounts, node.facts, node.started)
    return node.plan(fate) if is_done and not lines.is_any_deep else None


def _aged(node: Sole, lines: Lines, books: Books, shares: Shares) -> tuple[int, int]:
    """The lane and the row of the oldest who has waited too long, of queues not above their share; -1 if none has."""
    lanes, rows = lines.heads_by(node.now_ms - node.policy.aging_after_ms)
    submits = lines.columns.submit[rows]
    for submit_ms in np.unique(submits).tolist():
        aged = {}
        for place in (submits == submit_ms).nonzero()[0].tolist():
            if _is_within_share(node, books, shares, int(lines.columns.lane_queue[lanes[place]])):
                aged[place] = node.roll.job(int(rows[place]))
        if aged:
            oldest = min(aged, key=lambda place: (aged[place].number, aged[place].key))
            return int(lanes[oldest]), int(rows[oldest])
    return NONE, NONE


def _is_within_share(node: Sole, books: Books, shares: Shares, queue: int) -> bool:
    """Whether a queue has no more than it is entitled to. Shares are worked out only where that is not plain: nobody is
    cordoned or has a quota here, so whoever wants its nominal share is entitled to that at least."""
    used, name = int(books.started_usage[queue]), node.roll.queues.names[queue]
    if not used:
        return True
    demand = node.snapshot.queues[node.roll.carried.place_of[name]].demand
    wanted = node.policy.weights.usage(demand.lowest(shares.capacity))
    return used <= min(wanted, int(books.nominal[queue])) or used <= shares.entitled[name]
