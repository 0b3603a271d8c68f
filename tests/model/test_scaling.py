"""Speeds by width, from those that someone measured."""

from __future__ import annotations

import pytest

from muster.model.scaling import speeds_of


@pytest.mark.parametrize(
    "stated, most, expected",
    [
        pytest.param({1: 1, 2: 2, 3: 3}, 3, [1, 2, 3], id="as stated"),
        pytest.param({1: 120, 4: 300}, 4, [1, 1.5, 2, 2.5], id="in any unit, on straight lines in between"),
        pytest.param({1: 1, 2: 1.5}, 4, [1, 1.5, 1.5, 1.5], id="no faster beyond the last"),
        pytest.param({4: 8}, 4, [1, 2, 3, 4], id="through nothing at no tasks"),
        pytest.param({1: 2, 2: 1}, 2, [1, 0.5], id="slower with more, if it is so"),
    ],
)
def test_speeds(stated, most, expected):
    micro = {width: round(speed * 1_000_000) for width, speed in stated.items()}

    assert speeds_of(micro, most) == tuple(round(speed * 1_000_000) for speed in expected)
