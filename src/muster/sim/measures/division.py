"""What each queue is entitled to at many moments at once: the demand-capped weighted max-min of design.md 4.2.

The engine divides in whole numbers, moment by moment, because it decides by them. Here nothing is decided: a column of
moments is divided in one go, in floating point, so that a million of them cost seconds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def entitled(wanted: Floats, weights: Floats, whole: Floats) -> Floats:
    """Shares of `whole` (one for each moment), from what each queue wants (moments × queues) and its weight.

    Everyone gets the same per weight, or all they want if that is less. We raise the level: whoever wants less than
    it gives has enough and leaves the rest to the others, until nobody more has enough.
    """
    shares = wanted.copy()
    short = np.flatnonzero(wanted.sum(axis=1) > whole)
    if not len(short):
        return shares
    demands, left = wanted[short], whole[short]
    by_weight = np.broadcast_to(weights, demands.shape)
    has_enough = demands <= 0
    while True:
        given = np.where(has_enough, demands, 0.0).sum(axis=1)
        level = (left - given) / np.maximum(np.where(has_enough, 0.0, by_weight).sum(axis=1), _TINY)
        offered = level[:, None] * by_weight
        newly = ~has_enough & (demands <= offered)
        if not newly.any():
            break
        has_enough |= newly
    shares[short] = np.where(has_enough, demands, offered)
    return shares


_TINY = 1e-300  # where all have enough, nothing is divided
