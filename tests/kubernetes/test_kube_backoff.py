"""Waits before trying again: longer each time, bounded, and the same for the same seed."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from muster.kubernetes.backoff import Backoff

SEEDS = st.integers(0, 1000)


@given(SEEDS, st.floats(0.01, 1.0), st.floats(1.0, 60.0), st.integers(1, 30))
def test_property_waits_double_up_to_their_bound_and_lose_at_most_half(
    seed: int, first_s: float, most_s: float, tries: int
) -> None:
    backoff = Backoff(Random(seed), first_s=first_s, most_s=most_s)

    for number in range(tries):
        whole = min(first_s * 2**number, most_s)
        assert whole / 2 <= backoff.wait_s() <= whole


@given(SEEDS, st.integers(1, 10))
def test_property_the_same_seed_waits_the_same_and_success_begins_anew(seed: int, tries: int) -> None:
    one, other = Backoff(Random(seed)), Backoff(Random(seed))

    assert [one.wait_s() for _ in range(tries)] == [other.wait_s() for _ in range(tries)]
    one.reset()
    assert one.wait_s() <= 0.2


def test_a_server_that_asks_for_more_time_gets_it() -> None:
    assert Backoff(Random(1)).wait_s(at_least_s=7.0) == 7.0
