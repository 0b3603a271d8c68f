"""Who stands in which lane, as jobs come and go in their order: what muster.engine.lined keeps, for kernels to keep.

The roll that turns read is the same. Jobs come in the order of their rows, so each goes to the end of its lane.
"""

from __future__ import annotations

from typing import NamedTuple

from muster.engine.kernels.filling import NONE, Ints, Roll
from muster.engine.kernels.jit import kernel


class Kinds(NamedTuple):
    """Jobs of one queue, profile and priority stand in one lane. `of`: the kind of each row."""

    of: Ints
    queue: Ints
    profile: Ints
    priority: Ints
    lane: Ints  # -1: nobody of the kind stands in line


class Lanes(NamedTuple):
    """What only those who keep lanes need of them; see muster.engine.lined."""

    last: Ints
    previous: Ints
    kind: Ints
    before: Ints  # by row
    unused: Ints  # lanes that were made and are empty
    many: Ints  # one number each: how many of these there are,
    made: Ints  # and how many lanes were ever made


NO_LIMIT = 1 << 62


@kernel
def has_room_for(lanes: Lanes, jobs: int) -> bool:
    """Whether there are lanes for so many more jobs, if each needs one."""
    return bool(lanes.many[0] + len(lanes.last) - lanes.made[0] >= jobs)


@kernel
def stand_in_line(roll: Roll, kinds: Kinds, lanes: Lanes, row: int) -> None:
    """A job comes."""
    kind = kinds.of[row]
    lane = int(kinds.lane[kind])
    if lane == NONE:
        lane = open_lane(roll, kinds, lanes, kind)
    last = lanes.last[lane]
    lanes.before[row], roll.next[row], lanes.last[lane] = last, NONE, row
    if last == NONE:
        roll.lane_first[lane] = row
    else:
        roll.next[last] = row
    roll.lane_count[lane] += 1
    roll.lane_shortest[lane] = min(roll.lane_shortest[lane], roll.known[row])


@kernel
def leave_line(roll: Roll, kinds: Kinds, lanes: Lanes, row: int) -> None:
    """A job stands in line no more."""
    lane = int(kinds.lane[kinds.of[row]])
    before, following = lanes.before[row], roll.next[row]
    if before == NONE:
        roll.lane_first[lane] = following
    else:
        roll.next[before] = following
    if following == NONE:
        lanes.last[lane] = before
    else:
        lanes.before[following] = before
    roll.lane_count[lane] -= 1
    if roll.lane_count[lane] == 0:
        close_lane(roll, kinds, lanes, lane)


@kernel
def open_lane(roll: Roll, kinds: Kinds, lanes: Lanes, kind: int) -> int:
    """A lane for a kind of which nobody stood in line."""
    if lanes.many[0] > 0:
        lanes.many[0] -= 1
        lane = int(lanes.unused[lanes.many[0]])
    else:
        lane = int(lanes.made[0])
        lanes.made[0] += 1
    queue = kinds.queue[kind]
    following = roll.queue_lane[queue]
    kinds.lane[kind], lanes.kind[lane] = lane, kind
    roll.lane_queue[lane], roll.lane_profile[lane] = queue, kinds.profile[kind]
    roll.lane_class[lane], roll.lane_priority[lane], roll.lane_attained[lane] = 0, kinds.priority[kind], 0
    roll.lane_first[lane], lanes.last[lane], lanes.previous[lane] = NONE, NONE, NONE
    roll.lane_next[lane], roll.queue_lane[queue] = following, lane
    if following != NONE:
        lanes.previous[following] = lane
    roll.lane_shortest[lane] = NO_LIMIT
    return lane


@kernel
def close_lane(roll: Roll, kinds: Kinds, lanes: Lanes, lane: int) -> None:
    """Nobody stands in the lane any more."""
    before, following = lanes.previous[lane], roll.lane_next[lane]
    if before == NONE:
        roll.queue_lane[roll.lane_queue[lane]] = following
    else:
        roll.lane_next[before] = following
    if following != NONE:
        lanes.previous[following] = before
    kinds.lane[lanes.kind[lane]] = NONE
    lanes.unused[lanes.many[0]] = lane
    lanes.many[0] += 1
