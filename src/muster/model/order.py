"""Who comes first inside a queue, among jobs of one class and priority.

Where nothing is said it is the one that came first. Any other order gives every job a score, the smallest first:

    expected × lg(expected run time) + size × lg(usage) - waited × lg(time waited + patience)
        - sojourn × lg(time waited + expected run time) + attained × lg(service of earlier attempts + 1)

lg is the logarithm to base 2. So products and powers become sums, and the well-known orders are rows of a table
(NAMED): shortest job, smallest area, largest slowdown, WFP3, least attained service. Ties go to who came first.

Scores are integers: lg in parts of 65,536, worked out by squaring; exponents in thousandths. Waits are counted up to
the last mark (`Policy.order_step_ms` apart), so that an order stays the same from one mark to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from muster.model.names import NameKey

LG_BITS = 16
_ONE = 30  # lg works on numbers from 1 << _ONE up to twice that


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The exponents of an order, in thousandths. All zero: first come, first served."""

    expected: int = 0
    size: int = 0
    waited: int = 0
    sojourn: int = 0
    attained: int = 0
    patience_ms: int = 1
    floor_ms: int = 1  # a run time counts as no less

    @property
    def is_by_arrival(self) -> bool:
        """Whether jobs come in the order of their submission."""
        return not (self.expected or self.size or self.waited or self.sojourn or self.attained)

    @property
    def reads_time(self) -> bool:
        """Whether run times decide."""
        return bool(self.expected or self.sojourn)

    @property
    def is_moving(self) -> bool:
        """Whether the order changes with time."""
        return bool(self.waited or self.sojourn)

    def score(self, usage: int, expected_ms: int, waited_ms: int, attained: int = 0) -> int:
        """Where a job stands: the smaller, the sooner. `attained`: see Job."""
        if self.is_by_arrival:
            return 0
        expected_ms = max(expected_ms, self.floor_ms)
        return (
            self.expected * lg(expected_ms)
            + self.size * lg(max(usage, 1))
            - self.waited * lg(waited_ms + self.patience_ms)
            - self.sojourn * lg(waited_ms + expected_ms)
            + self.attained * lg(attained + 1)
        )


NAMED = {
    "arrival": Order(),
    "shortest": Order(expected=1000),
    "smallest": Order(expected=1000, size=1000),
    "slowdown": Order(expected=1000, sojourn=1000),
    "wfp3": Order(expected=3000, size=-1000, waited=3000),
    "leastAttained": Order(attained=1000),
}
ARRIVAL = NAMED["arrival"]


class Place(NamedTuple):
    """Where a job stands in its queue: class, priority, score, submit time, number, id; the smallest first."""

    priority_class: int
    priority: int
    score: int
    submit_ms: int
    number: int
    key: NameKey


def lg(number: int) -> int:
    """The logarithm to base 2 of a positive number, in parts of 65,536, rounded down."""
    whole = number.bit_length() - 1
    rest = number >> (whole - _ONE) if whole > _ONE else number << (_ONE - whole)
    found = whole
    for _ in range(LG_BITS):
        rest = (rest * rest) >> _ONE
        is_over = rest >> (_ONE + 1)
        found = 2 * found + is_over
        rest >>= is_over
    return found
