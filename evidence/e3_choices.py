"""Why our reproduction of E3's baselines differs from the publication: replays, from its choices to Muster's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from evidence.e3_plain import Choices, Outcome, Plain, Rule, most_used, replayed
from evidence.experiment import Case
from evidence.traces import trace
from evidence.writing import table
from muster.model.nodes import DEVICE_MILLI
from muster.model.resources import GPU
from muster.sim.traces import philly
from muster.sim.traces.shaping import Machine

MOST = "plain/most"
STEPS: Mapping[str, Choices] = {
    "the publication's choices": Choices(),
    "jobs of one second as the trace has them, not the shortest first": Choices(shortest_of_a_second=False),
    "and a gang keeps its last node to itself": Choices(shortest_of_a_second=False, lends_last_node=False),
    "and any number may be passed over in a round, not 200": Choices(
        shortest_of_a_second=False, lends_last_node=False, passed_over=None
    ),
}
"""From the publication to Muster, one choice after the other."""

RULES = {"fifo-strict": Rule(is_strict=True), "fifo-skip": Rule()}
BAR = "plain/sjf-strict"


def shares_of(weights: Mapping[str, int]) -> Mapping[str, Rule]:
    """Fair shares with four orders among virtual clusters whose shares are equal."""
    names = sorted(weights)
    orders = {
        "name": names,
        "name, backwards": names[::-1],
        "weight": sorted(names, key=lambda name: -weights[name]),
        "weight, backwards": sorted(names, key=lambda name: weights[name]),
    }
    return {told: Rule(shares={name: weights[name] for name in order}) for told, order in orders.items()}


def cases(reading: philly.Reading, weights: Mapping[str, int], horizon_s: int) -> Sequence[Case]:
    """All replays."""
    wanted = {_key(rule, step): (RULES[rule], choices) for rule in RULES for step, choices in enumerate(STEPS.values())}
    wanted[BAR] = (Rule(is_strict=True, by_run_time=True), Choices())
    wanted |= {_key("fair-skip", n): (rule, Choices()) for n, rule in enumerate(shares_of(weights).values())}
    made = [Case(key=key, work=partial(_replay, reading, *how, horizon_s)) for key, how in wanted.items()]
    return [*made, Case(key=MOST, work=partial(_most, reading, horizon_s))]


def _key(rule: str, step: int) -> str:
    return f"plain/{rule}/{step}"


def _replay(reading: philly.Reading, rule: Rule, choices: Choices, horizon_s: int) -> Outcome:
    return replayed(_jobs(reading), rule, choices, horizon_s)


def _most(reading: philly.Reading, horizon_s: int) -> Outcome:
    return Outcome(facts={"used": most_used(_jobs(reading), horizon_s)})


def _jobs(reading: philly.Reading) -> list[Plain]:
    found = philly.jobs(str(trace("philly", "philly.csv.gz")), Machine(64, 8, GPU), reading)
    return [
        Plain(
            entry.job.submit_ms // 1000,
            entry.runtime_ms // 1000,
            entry.job.profile.least.get(GPU) // DEVICE_MILLI,
            entry.job.queue,
        )
        for entry in found
    ]


def section(
    outcomes: Mapping[str, Outcome], published: Mapping[str, Sequence[float | str]], weights: Mapping[str, int]
) -> list[str]:
    """The part of the chapter that says where differences come from."""
    if not all(_key(rule, step) in outcomes for rule in RULES for step in range(len(STEPS))):
        return []
    told = {key: outcome.facts for key, outcome in outcomes.items()}
    rows: list[list[object]] = [["published", *(published[rule][place] for rule in RULES for place in (0, 2))]]
    for step, words in enumerate(STEPS):
        rows.append([words, *(told[_key(rule, step)][fact] for rule in RULES for fact in ("jct", "gangs"))])
    rows.append(["Muster's engine", *(told[rule][fact] for rule in RULES for fact in ("jct_all", "gangs_all"))])
    headings = [f"{rule}, {what}" for rule in RULES for what in ("mean JCT", "gangs wait")]
    return [
        "Where ours and the publication differ, it is by three choices that the protocol leaves open. A plain scheduler"
        " without the engine (`evidence/e3_plain.py`) goes from one to the other:",
        "",
        *table(["", *headings], rows),
        "",
        *_of_shares([told[key] for n in range(len(shares_of(weights))) if (key := _key("fair-skip", n)) in told]),
        "",
        *_of_sjf(told.get(BAR)),
    ]


def _of_shares(spread: Sequence[Mapping[str, float | int | str]]) -> list[str]:
    if not spread:
        return []
    jct, gangs = ([float(facts[name]) for facts in spread] for name in ("jct", "gangs"))
    return [
        "fair-skip depends on who goes first among virtual clusters with equal shares, which the publication does not"
        f" tell: by name or weight, forwards or backwards, its choices give a mean JCT from {min(jct):,.0f} to"
        f" {max(jct):,.0f} s, and gangs that wait from {min(gangs):,.0f} to {max(gangs):,.0f} s."
    ]


def _of_sjf(facts: Mapping[str, float | int | str] | None) -> list[str]:
    if facts is None:
        return []
    jct, gangs = (float(facts[name]) for name in ("jct", "gangs"))
    return [
        "The bar on gangs comes from the shortest job first with known run times, and nobody passed over: published"
        f" 51,821 s with a mean JCT of 17,923, replayed {gangs:,.0f} and {jct:,.0f}."
    ]
