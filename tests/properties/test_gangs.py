"""Gangs among jobs whose run times nobody knows start about as soon as if nobody could pass them (design.md 4.5)."""

from __future__ import annotations

import os

import pytest

from evidence.e0_gangs import Grid, medians

IS_WHOLE = "MUSTER_GRID" in os.environ  # make soak
LOADS, WIDTHS, QUEUES, SEEDS = ((0.7, 0.9, 1.05), (2, 4, 8), (1, 5), 5) if IS_WHOLE else ((0.9,), (4,), (1,), 1)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("queues", QUEUES)
def test_a_gang_waits_about_as_long_as_without_backfill_and_the_fleet_is_used_no_less(
    load: float, width: int, queues: int
) -> None:
    grids = [Grid(load=load, width=width, queues=queues, seed=seed) for seed in range(SEEDS)]

    on, off = ([grid.lived(backfill=backfill) for grid in grids] for backfill in (True, False))

    (wait, used), (wait_off, used_off) = (medians([it[0] for it in some], [it[1] for it in some]) for some in (on, off))
    assert wait <= 1.5 * wait_off, (wait, wait_off)
    assert used >= used_off, (used, used_off)
