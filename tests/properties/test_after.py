"""Whatever comes after whatever: every job ends as the plain rule says, and nobody starts too early."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from story import job, story, world

WHENS = ("ok", "any", "failed")
TIMES = st.integers(0, 4)


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Jobs that come after some before them in a list, submitted in any order; those with a time limit fail."""
    jobs: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 8))):
        names = draw(st.lists(st.sampled_from([it["name"] for it in jobs]), unique=True, max_size=3)) if jobs else []
        after = [{"job": name, "when": draw(st.sampled_from(WHENS))} for name in names]
        limit = {"timeLimit": 1} if draw(st.booleans()) else {}
        jobs.append(job(f"j{number}", runtime=2 + draw(TIMES), at=draw(TIMES), after=after, **limit))
    return draw(st.permutations(jobs))


def ends(jobs: list[dict[str, Any]]) -> dict[str, str]:
    """How each job must end: by itself if all before it ended as they had to, else cancelled."""
    by_name, found = {it["name"]: it for it in jobs}, dict[str, str]()

    def end(name: str) -> str:
        if name not in found:
            is_met = [
                need["when"] == "any" or {"ok": "succeeded", "failed": "failed"}[need["when"]] == end(need["job"])
                for need in by_name[name]["after"]
            ]
            own = "failed" if "timeLimit" in by_name[name] else "succeeded"
            found[name] = own if all(is_met) else "cancelled"
        return found[name]

    return {name: end(name) for name in by_name}


@given(plans())
def test_property_jobs_end_as_the_rule_says_and_start_after_those_before_them(jobs: list[dict[str, Any]]) -> None:
    told = story(world(jobs=jobs))

    over = {
        line["job"]: (line["event"], line["t"])
        for line in told.log
        if line["event"] in ("succeeded", "failed", "cancelled")
    }
    assert {name: event for name, (event, _) in over.items()} == ends(jobs)
    for it in jobs:
        started = told.starts().get(it["name"])
        assert (started is None) == (over[it["name"]][0] == "cancelled")
        if started is not None:
            assert started == max(
                [it["at"], *(over[need["job"]][1] for need in it["after"])]
            )  # the fleet is large enough
