"""Where a job stands in an order by score: the integers of muster.model.order, over columns."""

from __future__ import annotations

from muster.engine.kernels.filling import NONE, Roll, Rules, Shapes
from muster.engine.kernels.jit import kernel

LG_BITS = 16
ONE = 30


@kernel
def score(roll: Roll, shapes: Shapes, rules: Rules, lane: int, row: int) -> int:
    """The score of a queued job; 0 where jobs come in the order of their submission."""
    if not rules.is_scored:
        return 0
    known = int(roll.known[row])
    expected = max(rules.unknown_ms if known == NONE else known, rules.floor_ms)
    waited = max(rules.mark - int(roll.submit[row]), 0)
    total = 0
    if rules.by_expected:
        total += rules.by_expected * lg(expected)
    if rules.by_size:
        total += rules.by_size * lg(max(int(shapes.usage[roll.lane_profile[lane]]), 1))
    if rules.by_waited:
        total -= rules.by_waited * lg(waited + rules.patience_ms)
    if rules.by_sojourn:
        total -= rules.by_sojourn * lg(waited + expected)
    if rules.by_attained:
        total += rules.by_attained * lg(int(roll.lane_attained[lane]) + 1)
    return total


@kernel
def lg(number: int) -> int:
    """The logarithm to base 2 of a positive number, in parts of 65,536, rounded down."""
    whole = -1
    rest = number
    while rest > 0:
        rest >>= 1
        whole += 1
    rest = number >> (whole - ONE) if whole > ONE else number << (ONE - whole)
    found = whole
    for _ in range(LG_BITS):
        rest = (rest * rest) >> ONE
        is_over = rest >> (ONE + 1)
        found = 2 * found + is_over
        rest >>= is_over
    return found
