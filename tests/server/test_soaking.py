"""The table that `make soak` writes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from ledger import Ledger
from soaking import Survived, with_row

RELIABILITY = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")


def survived(kind: str, ledger: Ledger) -> Survived:
    return Survived(kind, {"server": 2}, ["a", "b"], ledger, seed="s", took_s=3)


@pytest.mark.parametrize(
    "began, succeeded, lost, twice",
    [
        pytest.param({("a", 1): 1, ("b", 1): 1}, {"a": 1, "b": 1}, 0, 0, id="both ended once"),
        pytest.param({("a", 1): 1}, {"a": 1}, 1, 0, id="one never ended"),
        pytest.param({("a", 1): 2, ("b", 1): 1}, {"a": 1, "b": 1}, 0, 1, id="one attempt began twice"),
        pytest.param(
            {("a", 1): 1, ("a", 2): 1, ("b", 1): 1}, {"a": 2, "b": 1}, 0, 1, id="two attempts of one ended well"
        ),
    ],
)
def test_a_row_counts_what_was_lost_and_what_ran_twice(
    began: dict[tuple[str, int], int], succeeded: dict[str, int], lost: int, twice: int
) -> None:
    row = survived("sqlite", Ledger(Counter(began), Counter(succeeded))).row()

    assert row == f"| sqlite | 2 | 0 | 0 | 2 | {len(began)} | {lost} | {twice} | `s` | 3 s |"


def test_a_row_takes_the_place_of_the_one_of_the_same_database_and_leaves_the_rest_alone() -> None:
    nothing = Ledger(Counter(), Counter())
    once = with_row(RELIABILITY, survived("sqlite", nothing))
    again = with_row(once, survived("postgresql", nothing))

    assert with_row(again, survived("sqlite", nothing)) == again
    rows = [survived(kind, nothing).row() for kind in ("postgresql", "sqlite")]
    assert "\n".join(rows) in again
    assert again.partition("## Other faults")[2] == RELIABILITY.partition("## Other faults")[2]
