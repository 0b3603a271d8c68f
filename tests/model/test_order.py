"""Orders inside queues: scores, and who stands first by them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.kernels import scoring
from muster.model.order import NAMED, Order, lg

MINUTE = 60_000


@given(st.integers(1, 1 << 61))
def test_property_lg_is_the_logarithm_rounded_down_a_little(number: int) -> None:
    exact = math.log2(number) * 65_536

    assert exact - 4 <= lg(number) <= exact + 1


@given(st.integers(1, 1 << 61))
def test_property_kernels_have_the_same_logarithm(number: int) -> None:
    assert int(scoring.lg(number)) == lg(number)


@given(st.integers(1, 1 << 60), st.integers(0, 1 << 60))
def test_property_lg_never_falls(number: int, more: int) -> None:
    assert lg(number) <= lg(number + more)


@pytest.mark.parametrize(
    "order, first, second",
    [
        # (usage, expected, waited, attained)
        pytest.param("shortest", (9, 5 * MINUTE, 0), (1, 6 * MINUTE, 0), id="the shorter one, however wide"),
        pytest.param("smallest", (1, 6 * MINUTE, 0), (9, 5 * MINUTE, 0), id="the smaller area"),
        pytest.param("slowdown", (1, MINUTE, MINUTE), (1, 10 * MINUTE, 5 * MINUTE), id="who is slowed down more"),
        pytest.param("wfp3", (8, MINUTE, MINUTE), (1, MINUTE, MINUTE), id="of equal slowdown the wider one"),
        pytest.param("wfp3", (1, MINUTE, 9 * MINUTE), (8, MINUTE, MINUTE), id="whoever waited much longer"),
        pytest.param("leastAttained", (9, MINUTE, 0, 0), (1, 1, MINUTE, 1), id="who has got nothing yet"),
        pytest.param("leastAttained", (9, MINUTE, 0, 10), (1, 1, MINUTE, 11), id="who has got less"),
    ],
)
def test_named_orders(order: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    assert NAMED[order].score(*first) < NAMED[order].score(*second)


def test_first_come_first_served_has_no_scores() -> None:
    assert NAMED["arrival"].score(5, MINUTE, MINUTE) == 0


def test_run_times_below_the_floor_count_alike() -> None:
    order = Order(expected=1000, floor_ms=MINUTE)

    assert order.score(1, 1, 0) == order.score(1, MINUTE, 0) < order.score(1, 2 * MINUTE, 0)
