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

    Everyone gets the same per weight, or all they want if that is less. We raise the level: whoever wants no more than
    it gives has enough and leaves the rest to the others, until nobody more has enough.
    """
    shares = wanted.copy()
    rows = np.flatnonzero(wanted.sum(axis=1) > whole)
    per_weight = wanted[rows] / weights
    level, many = np.zeros(len(rows)), np.full(len(rows), -1)
    while len(rows):
        has_enough = per_weight <= level[:, None]
        given = np.einsum("mq,mq->m", wanted[rows], has_enough.astype(float))
        level = (whole[rows] - given) / np.maximum((~has_enough).astype(float) @ weights, _TINY)
        enough = has_enough.sum(axis=1)
        settled = enough == many
        if settled.any():
            shares[rows[settled]] = np.minimum(wanted[rows[settled]], level[settled, None] * weights)
            rows, per_weight, level, enough = (part[~settled] for part in (rows, per_weight, level, enough))
        many = enough
    return shares


_TINY = 1e-300  # where all have enough, nothing is divided
