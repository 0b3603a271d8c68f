"""Who starts on the only node there is, where that takes no weighing of queues against each other.

Beside the one promise there may be, the room now and at the promised moment is all that counts. As long as those who
could start are all of one queue, they start in its order; whoever is not sure of that asks for a whole turn.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.filling import NONE, Flags, Ints, Roll
from muster.engine.kernels.jit import kernel

NOW, START, PROMISED, KNOWN, DEEP, SINCE, NEVER, WAITING, AGED, FIRST = range(10)
NEXT_END, NEXT_AGE, LANE, MANY, RESERVED, PLACE, FACTS = range(10, 17)
"""What is told: the moment; when the promise starts, its profile (-1: there is none) and how long its job will run;
how many profiles a queue may offer, after which submit time nobody is aged yet, what stands for never; how many
wait; the lane and the row of the aged job that comes before all others (-1: none does). And what is answered: the first
end to come, the first submit time after that of those who wait; in which lane the next to start stands; how many start,
the row of the one who is newly promised room (-1: nobody is), and after how many starts."""

FREE, SPARE, BEFORE, AMOUNTS = range(4)
"""Rows of amounts: what is free now, at the promised moment with the promise kept, and just before it."""

ROW, PROFILE, END, STARTED = range(4)
"""Columns of those who start, first come first: in which row of the roll each stood (-1: it was promised room before),
its profile, and when it ends."""

STAYS, STARTS, SOONER, UNKNOWN = range(4)
"""What becomes of the promise, if there is one: it stays as it is, its job starts, it is kept sooner. Or only a whole
turn can tell: it does not hold any more, or nobody knows when someone leaves."""

UNSURE = -2


class Running(NamedTuple):
    """Columns of those who run: how many tasks (0: the row is empty), when each ends, its profile."""

    many: Ints
    ends: Ints
    profiles: Ints


@kernel
def starts_at_a_glance(
    roll: Roll, running: Running, least: Ints, amounts: Ints, facts: Ints, is_out: Flags, started: Ints
) -> int:
    """What becomes of the promise, and who starts beside it. Where MANY is UNSURE, queues must be weighed against each
    other."""
    fate = open_room(running, least, amounts, facts, started)
    if fate != UNKNOWN:
        note_ages(roll, facts)
        start_in_order(roll, least, amounts, facts, is_out, started, fate)
    return fate


@kernel
def start_in_order(roll: Roll, least: Ints, amounts: Ints, facts: Ints, is_out: Flags, started: Ints, fate: int) -> int:
    """Who starts beside the promise, as long as all who could are of one queue; else MANY is UNSURE. How many of those
    who started are out of their lines."""
    if fate == STARTS and facts[WAITING] > 0:  # the next is to be promised room
        facts[MANY] = UNSURE
        return 0
    many, row = 0, next_to_start(roll, least, amounts, facts, is_out)
    while row != NONE:
        profile = NONE if row == UNSURE else int(roll.lane_profile[facts[LANE]])
        if profile == NONE or not take_room(row, profile, int(roll.known[row]), least, amounts, facts, started):
            facts[MANY] = UNSURE
            return many
        is_out[row] = 1
        many += 1
        row = next_to_start(roll, least, amounts, facts, is_out)
    return many


@kernel
def open_room(running: Running, least: Ints, amounts: Ints, facts: Ints, started: Ints) -> int:
    """The room now, at the promised moment and before it; and what becomes of the promise."""
    facts[MANY], facts[RESERVED] = 0, NONE
    if not leave(running, least, amounts, facts):
        return UNKNOWN
    fate = redeem(running, least, amounts, facts, started)
    if fate == STAYS and facts[PROMISED] != NONE:
        if facts[START] <= facts[NOW] or not fits(least, facts[PROMISED], amounts, SPARE):
            return UNKNOWN
        for place in range(least.shape[1]):
            amounts[SPARE, place] -= least[facts[PROMISED], place]
    return fate


@kernel
def redeem(running: Running, least: Ints, amounts: Ints, facts: Ints, started: Ints) -> int:
    """What becomes of the promise, if it holds: who was promised room starts, or will sooner than was thought."""
    promised = facts[PROMISED]
    if promised == NONE:
        return STAYS
    if fits(least, promised, amounts, FREE):
        facts[PROMISED], facts[START] = NONE, facts[NEVER]
        return STARTS if take_room(NONE, promised, facts[KNOWN], least, amounts, facts, started) else UNKNOWN
    if fits(least, promised, amounts, BEFORE):
        return SOONER if keep_room(least, running, amounts, facts, started, promised) else UNKNOWN
    return STAYS


@kernel
def leave(running: Running, least: Ints, amounts: Ints, facts: Ints) -> bool:
    """Those who run leave as they said; False if anyone did not say, or is overdue."""
    facts[NEXT_END] = facts[NEVER]
    for row in range(len(running.many)):
        if running.many[row] == 0:
            continue
        end, profile = running.ends[row], running.profiles[row]
        if end >= facts[NEVER] or end <= facts[NOW]:
            return False
        facts[NEXT_END] = min(facts[NEXT_END], end)
        if end <= facts[START]:
            for place in range(least.shape[1]):
                amounts[SPARE, place] += least[profile, place]
                if end < facts[START]:
                    amounts[BEFORE, place] += least[profile, place]
    return True


@kernel
def fits(least: Ints, profile: int, amounts: Ints, row: int) -> bool:
    """Whether such a job finds what it asks for."""
    for place in range(least.shape[1]):  # noqa: SIM110  -- a kernel knows no generators
        if least[profile, place] > amounts[row, place]:
            return False
    return True


@kernel
def note_ages(roll: Roll, facts: Ints) -> None:
    """When the oldest of those was submitted who are not aged yet, of the first in each lane."""
    facts[NEXT_AGE] = facts[NEVER]
    for lane in range(len(roll.lane_count)):
        if roll.lane_count[lane] > 0:
            submit = roll.submit[roll.lane_first[lane]]
            if submit > facts[SINCE]:
                facts[NEXT_AGE] = min(facts[NEXT_AGE], submit)


@kernel
def next_to_start(roll: Roll, least: Ints, amounts: Ints, facts: Ints, is_out: Flags) -> int:
    """The row of the first who can start, -1 if nobody can; UNSURE where it is not told here who comes first."""
    best, first = NONE, NONE
    for lane in range(len(roll.lane_count)):
        row = first_of(roll, least, amounts, facts, is_out, lane)
        if row == NONE:
            continue
        if best != NONE and roll.lane_queue[lane] != roll.lane_queue[best]:
            return UNSURE
        is_before = best == NONE or roll.lane_priority[lane] > roll.lane_priority[best]
        if best != NONE and roll.lane_priority[lane] == roll.lane_priority[best]:
            if roll.submit[row] == roll.submit[first]:
                return UNSURE
            is_before = roll.submit[row] < roll.submit[first]
        if is_before:
            best, first = lane, row
    facts[LANE] = best
    if best != NONE and lanes_of(roll, roll.lane_queue[best]) > facts[DEEP]:
        return UNSURE
    return first


@kernel
def first_of(roll: Roll, least: Ints, amounts: Ints, facts: Ints, is_out: Flags, lane: int) -> int:
    """The first of a lane who fits now, and is gone before the promise starts or fits beside it; -1 if nobody does."""
    profile = roll.lane_profile[lane]
    if roll.lane_count[lane] == 0 or not fits(least, profile, amounts, FREE):
        return NONE
    is_beside, most = fits(least, profile, amounts, SPARE), facts[START] - facts[NOW]
    if not is_beside and roll.lane_shortest[lane] > most:
        return NONE
    row = int(roll.lane_first[lane])
    while row != NONE:
        if is_out[row] == 0 and (is_beside or 0 <= roll.known[row] <= most):
            return row
        row = int(roll.next[row])
    return NONE


@kernel
def lanes_of(roll: Roll, queue: int) -> int:
    """How many lanes a queue has, which are at least as many as the profiles it may offer."""
    lane, many = int(roll.queue_lane[queue]), 0
    while lane != NONE:
        many += 1
        lane = int(roll.lane_next[lane])
    return many


@kernel
def take_room(row: int, profile: int, known: int, least: Ints, amounts: Ints, facts: Ints, started: Ints) -> bool:
    """One more job starts, and runs for so long; False, and nothing is done, if nobody knows how long, or it is too
    many."""
    if known <= 0 or facts[MANY] == len(started):
        return False
    end = facts[NOW] + known
    started[facts[MANY], ROW], started[facts[MANY], PROFILE], started[facts[MANY], END] = row, profile, end
    facts[MANY] += 1
    facts[NEXT_END] = min(facts[NEXT_END], end)
    for place in range(least.shape[1]):
        amounts[FREE, place] -= least[profile, place]
        if end > facts[START]:
            amounts[SPARE, place] -= least[profile, place]
        if end >= facts[START]:
            amounts[BEFORE, place] -= least[profile, place]
    return True


@kernel
def keep_room(least: Ints, running: Running, amounts: Ints, facts: Ints, started: Ints, profile: int) -> bool:
    """Such a job, for which there is too little now, is promised room from the first moment on at which there is
    enough; False if there will not be, because others than our jobs have it."""
    too_soon, enough = facts[NOW], facts[NOW] + 1
    for at in range(len(running.many)):
        if running.many[at] > 0:
            enough = max(enough, running.ends[at])
    for at in range(facts[MANY]):
        enough = max(enough, started[at, END])
    while too_soon + 1 < enough:
        half = too_soon + (enough - too_soon) // 2
        free_by(half, least, running, amounts, facts, started, SPARE)
        if fits(least, profile, amounts, SPARE):
            enough = half
        else:
            too_soon = half
    facts[PROMISED], facts[START] = profile, enough
    free_by(enough - 1, least, running, amounts, facts, started, BEFORE)
    free_by(enough, least, running, amounts, facts, started, SPARE)
    is_enough = fits(least, profile, amounts, SPARE)
    for place in range(least.shape[1]):
        amounts[SPARE, place] -= least[profile, place]
    return is_enough


@kernel
def free_by(moment: int, least: Ints, running: Running, amounts: Ints, facts: Ints, started: Ints, row: int) -> None:
    """Write what is free at some moment, if nobody else starts."""
    for place in range(least.shape[1]):
        amounts[row, place] = amounts[FREE, place]
    for at in range(len(running.many)):
        if running.many[at] > 0 and running.ends[at] <= moment:
            for place in range(least.shape[1]):
                amounts[row, place] += least[running.profiles[at], place]
    for at in range(facts[MANY]):
        if started[at, END] <= moment:
            for place in range(least.shape[1]):
                amounts[row, place] += least[started[at, PROFILE], place]
