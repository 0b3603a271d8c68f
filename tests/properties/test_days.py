"""Over a day in which everyone has jobs in line, each queue gets its weight's part (design.md 4.3)."""

from __future__ import annotations

from random import Random

from effort import a_part
from hypothesis import given
from hypothesis import strategies as st

from evidence.e0_streams import DAY_MIN, allowed, followed, off_by, random_streams, saturated
from muster.model.policy import Policy

MOST_STARTS = 400


@a_part(20)
@given(seed=st.integers(0, 2**32), machines=st.integers(1, 8))
def test_property_over_a_day_nobody_is_further_off_than_one_job_of_its_own_and_one_of_a_rival(
    seed: int, machines: int
) -> None:
    streams = random_streams(Random(seed), machines, MOST_STARTS)

    given_to, _, _ = followed(saturated(machines, streams, Policy(over_share=None), DAY_MIN, seed))

    off = off_by(given_to, streams)
    for stream in streams:
        assert abs(off[stream.name]) <= allowed(stream, streams), (stream, off, machines, streams)
