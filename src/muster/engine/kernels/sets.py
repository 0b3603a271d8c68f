"""Sets of nodes in words of 62 bits, numbers on a logarithmic scale, and where things begin in the ground.

A set is told by the cell where it begins: its words first, then its summary, with a bit for each word that is not
empty (placing.py).
"""

from __future__ import annotations

from muster.engine.kernels.jit import kernel
from muster.engine.kernels.placing import ASK, ASKS, CLUSTER, CLUSTERS, PLACE, SET, SETS, WORD, Cells

_POSITIONS = bytes((0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8, 31, 27, 13, 23, 21, 19, 16, 7))
_POSITIONS += bytes((26, 12, 18, 6, 11, 5, 10, 9))
_LENGTHS = bytes(number.bit_length() for number in range(256))


@kernel
def lowest_bit(word: int) -> int:
    """The position of the lowest bit that is set in a word, of which one is."""
    half = word & 0x7FFFFFFF
    if half:
        return 0 + _POSITIONS[(((half & -half) * 0x077CB531) >> 27) & 31]
    half = word >> 31
    return 31 + _POSITIONS[(((half & -half) * 0x077CB531) >> 27) & 31]


@kernel
def step(amount: int, steps: int) -> int:
    """Where an amount stands on a logarithmic scale with so many steps (1, 2 or 4) per doubling."""
    if amount < steps:
        return amount
    shift = bit_length(amount) - bit_length(steps)
    return shift * steps + (amount >> shift)


@kernel
def bit_length(amount: int) -> int:
    """How many bits a number has up to its highest that is set."""
    length = 0
    while amount > 255:
        amount >>= 8
        length += 8
    return length + _LENGTHS[amount]


@kernel
def includes(cells: Cells, nodes: int, node: int) -> bool:
    """Whether the node is in the set."""
    return (cells[nodes + node // WORD] >> (node % WORD)) & 1 != 0


@kernel
def include(cells: Cells, nodes: int, words: int, node: int) -> None:
    """Put the node into the set."""
    word = node // WORD
    if cells[nodes + word] == 0:
        cells[nodes + words + word // WORD] |= 1 << (word % WORD)
    cells[nodes + word] |= 1 << (node % WORD)


@kernel
def exclude(cells: Cells, nodes: int, words: int, node: int) -> None:
    """Take the node, which is in the set, out of it."""
    word = node // WORD
    cells[nodes + word] ^= 1 << (node % WORD)
    if cells[nodes + word] == 0:
        cells[nodes + words + word // WORD] ^= 1 << (word % WORD)


@kernel
def copy(cells: Cells, to: int, others: Cells, first: int, count: int) -> None:
    """Copy cells; a slice would do, but its machine code is large."""
    for each in range(count):
        cells[to + each] = others[first + each]


@kernel
def set_of(ground: Cells, number: int) -> int:
    """Where a set of nodes is."""
    return ground[SETS] + number * ground[SET]


@kernel
def ask_of(ground: Cells, group: int) -> int:
    """Where it is said what a group asks for."""
    return ground[ASKS] + group * ground[ASK]


@kernel
def place_of(ground: Cells, cluster: int) -> int:
    """Where the set of the nodes of a cluster is."""
    return set_of(ground, ground[ground[CLUSTERS] + cluster * CLUSTER + PLACE])
