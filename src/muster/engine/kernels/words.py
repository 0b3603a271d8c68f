"""Words of 64 bits, as sets of the numbers 0 to 63, and arithmetic that wraps around on purpose.

Operators on numpy's unsigned numbers warn when they wrap around; the functions here do not. Beware of
mixing: with a signed number a word becomes a float in plain kernels and signed in compiled ones; with a
literal it stays a word only in plain ones. Write `word + np.uint64(1)`, never `word + 1`. And keep words
in arrays: a compiled kernel returns a plain int, which is a signed number to the next.
"""

from __future__ import annotations

import numpy as np

from muster.engine.kernels.jit import kernel

_PAIRS = np.uint64(0x5555555555555555)
_FOURS = np.uint64(0x3333333333333333)
_BYTES = np.uint64(0x0F0F0F0F0F0F0F0F)
_ONES = np.uint64(0x0101010101010101)


@kernel
def wrapping_sum(left: np.uint64, right: np.uint64) -> np.uint64:
    """left + right modulo 2^64."""
    return np.uint64(np.add(left, right))


@kernel
def wrapping_difference(left: np.uint64, right: np.uint64) -> np.uint64:
    """left - right modulo 2^64."""
    return np.uint64(np.subtract(left, right))


@kernel
def wrapping_product(left: np.uint64, right: np.uint64) -> np.uint64:
    """left × right modulo 2^64."""
    return np.uint64(np.multiply(left, right))


@kernel
def bit_count(word: np.uint64) -> int:
    """How many bits are set."""
    word = wrapping_difference(word, (word >> np.uint64(1)) & _PAIRS)
    word = (word & _FOURS) + ((word >> np.uint64(2)) & _FOURS)
    word = (word + (word >> np.uint64(4))) & _BYTES
    return int(wrapping_product(word, _ONES) >> np.uint64(56))


@kernel
def lowest_bit(word: np.uint64) -> int:
    """The smallest number in the set: the position of the lowest bit that is set; 64 if none is."""
    lowest = word & wrapping_difference(np.uint64(0), word)
    return bit_count(wrapping_difference(lowest, np.uint64(1)))
