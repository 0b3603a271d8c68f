"""Where tasks go: the tightest node that fits at every moment, found in an index that is kept up as rooms change.

This module says what that works on; the kernels are next to it:

    sets          sets of nodes, and numbers
    fitting       one node: what fits on it
    indexing      the nodes by tightness
    searching     the tightest that fits
    measuring     what a task would cost on a node, where the tightest is not the best
    choosing      the node where that is least
    changes       tasks come and go, and are undone
    circles       how many tasks of close groups fit where
    closeness     the closest nodes for them
    gangs         whole jobs: all tasks or none
    counting      what is short, and for how many there is room

Everything is numbers in five rows of cells; who works on them passes them on in this order:

    ground   the fleet: sizes, sets of nodes, what task groups ask for, domains
    books    the rooms of all nodes at several moments, and which nodes changed last
    index    the nodes of the first moment by tightness
    circles  how many tasks of close groups each node and domain takes
    trial    the moments one placement works on, its answer, and a log to undo it

Inside a row of cells things are told by the place where they begin: `books[room + TASKS]` are the tasks in a room.
Compiled kernels take arrays; plain ones are as happy with lists, which are faster where worlds are small.

Nodes stand in buckets of equal tightness. A bucket is a set of nodes, so that the first one in node order that a task
may use is found by looking at a few words. Five levels make a search cheap:

    shelf   how dear the nodes are: without GPUs, with GPUs; with 1, 2, ... devices whole; by milli of one device
    line    the free cores, in 4 steps per doubling (on the last shelf: the free milli, by 32)
    bucket  the free memory, in 1 step per doubling (on the last shelf: the free milli)
    word    62 nodes; words that are not empty have a bit in the set's summary
    node    the exact answer, at all moments

Numbers of buckets ascend with tightness: bucket = line * 32 + step of memory, lines ascend with shelf and step.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import TypeAlias

Cells: TypeAlias = MutableSequence[int]

DEVICE_MILLI = 1000
WORD = 62  # bits, so that a word is never negative and half of it can be multiplied
MOST_DEVICES = 62  # devices of a task are the bits of one number
MEMORY_STEPS = 32  # one bit for each in the word of a line
MILLI_LINES = 32  # 0 to 1000 milli, 32 to a line
NO_LIMIT = 1 << 62  # of hops

# ground: sizes first. A set of nodes has WORDS words and a summary of PARTS words, SET in all; a room has COLUMNS
# cells; a shelf has STEPS lines; memory has so many LEVELS, 0 if nobody keeps them; domains of up to SMALL nodes are
# looked at node by node.
NODES, WORDS, PARTS, SET, DIMS, DEVICES, COLUMNS, STEPS, LEVELS, SMALL, ASK = range(11)
# Then where its parts begin. MEMBERS are the nodes of all domains, HOMES the domains of all nodes.
TRAITS, CLUSTERS, DOMAINS, MEMBERS, HOMES, SETS, ASKS, GROUND = 11, 12, 13, 14, 15, 16, 17, 18
# A trait of a node: whether it has GPUs, its place in order of path, who has that place, where its homes begin.
HAS_GPUS, RANK, BY_RANK, HOME, TRAIT = 0, 1, 2, 3, 4
# A cluster: its nodes as a set, its nodes in order of path, its domains of two hops and more.
PLACE, RANK_FROM, RANK_TO, DOMAIN_FROM, DOMAIN_TO, CLUSTER = 0, 1, 2, 3, 4, 5
# A domain: its members; its nodes as a set only if they are many.
DOMAIN_HOPS, WASTES, MEMBER_FROM, MEMBER_TO, DOMAIN_PLACE, DOMAIN = 0, 1, 2, 3, 4, 5
# What tasks of a group ask for. OPEN and ANY are sets: nodes that suit and take tasks, and all that suit. To be looked
# for from bucket START on, on each shelf from line OFFSET on, on each line from FLOOR on; the first shelf ends at line
# SHELF_END, the last at END. NEVER: something that no node has. Nodes must be on LEVEL of memory at least, and if it
# asks for a PART of a device, on the level of cores that is OFFSET + 1.
GPUS, MILLI, WHOLE, CLOSE, HOPS, NEVER, OPEN, ANY, START, FLOOR, OFFSET, SHELF_END, END, LEVEL, PART = range(15)
MIN, INITIAL, MAX, AMOUNTS = 15, 16, 17, 18
# Amounts that every fleet has, in front of all others.
CPU_DIM, MEMORY_DIM, GPU_DIM, PODS_DIM = 0, 1, 2, 3

# books: tallies, the ring of nodes that changed last, and one block for each moment: a cell that says whether its
# index is up to date, then its rooms. A moment is told by its first room. The first block are the empty rooms.
# The size of the ring is a power of two. CORES: millicores that tasks without GPUs leave free for each idle GPU.
# MEASURE: where it is said how nodes are compared (measuring.py); 0: the tightest is the best.
CHANGES, SCANNED, PLACEMENTS, RING_SIZE, EMPTIES, CORES, MEASURE, RING = 0, 1, 2, 3, 4, 5, 6, 7
# A room: tasks, all free amounts, milli of all devices (-1 where there is none), all debts.
TASKS, FREE = 0, 1

# index: rows are sets of nodes and how many they are; a bucket gets one with its first node. Row 0 are nodes without
# tasks. Lines have bits if they are not empty; each has the rows of its 32 buckets, and their bits. A node is where
# it is by cores and memory, and by whole devices: one more than its bucket, 0 if nowhere. In large fleets there are
# also the sets of nodes that are on a level of cores or memory or above it: they sort out most of those in a bucket
# that do not fit after all. Levels are steps, 4 per doubling, counted from 1.
GIVEN_OUT, CAME_BACK, ROW, BUCKETS, WHERE, CPU_LEVELS, MEMORY_LEVELS, ROWS, LINES = 0, 1, 2, 3, 4, 5, 6, 7, 8
OCCUPIED, LINE = 32, 33
BY_ROOM, BY_DEVICES, CPU_LEVEL, MEMORY_LEVEL, NODE = 0, 1, 2, 3, 4

# circles: each says how many tasks of a group (of so many) fit on nodes of a set at certain moments, as of a change.
# Its numbers are apart from what tells it: first its holders, which are the nodes that take all tasks, in order of
# path, those that would waste GPUs apart; then the sums of all domains, and the counts of all nodes.
CIRCLES, CIRCLE_SIZE, SUMS, COUNTS, FIRST_CIRCLE = 0, 1, 2, 3, 4
CIRCLE_GROUP, CIRCLE_COUNT, CIRCLE_MASK, CIRCLE_SIGN, CIRCLE_SEEN, HOLDERS, CIRCLE = 0, 1, 2, 3, 4, 5, 6

# trial: how many moments, a number that tells them from others, where scratch, the answer and the log begin, how many
# tasks are in the answer and how many entries in the log; then the moments. The answer is group (its place in the
# profile), node and devices of each task.
MOMENTS, SIGN, SCRATCH, ANSWER, LOG, PLACED, LENGTH, FIRST = 0, 1, 2, 3, 4, 5, 6, 7
TASK_GROUP, TASK_NODE, TASK_DEVICES, TASK = 0, 1, 2, 3
LOG_MOMENT, LOG_NODE, LOG_ROOM = 0, 1, 2
