"""`muster simulate FILE --why JOB[@TIME]`: one job's answer, in words or as JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import asdict
from enum import Enum
from typing import Any

from rich.console import Console

from muster.cli.ending import BAD_INPUT
from muster.model.resources import Resources, format_amount
from muster.sim.scenario.problems import ScenarioError
from muster.sim.scenario.scenario import Scenario
from muster.sim.why import Told, in_words, read_question, tell
from muster.state.why.nodes import Lack

WIDTH = 100


def run(scenario: Scenario, question: str, output: str) -> int:
    """Answer and print; the exit code."""
    try:
        asked = read_question(question, scenario)
        with Console(stderr=True).status("running to the moment in question"):
            told = tell(scenario, asked)
    except ScenarioError as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    if output == "table":
        wrapped = (textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in in_words(told))
        print("\n\n".join(wrapped))
    else:
        print(json.dumps(_as_json(told), ensure_ascii=False, indent=2 if output == "summary" else None))
    return 0


def _as_json(told: Told) -> dict[str, Any]:
    story, why = told.story, told.why
    facts: dict[str, Any] | None = None
    if why is not None:
        facts = {
            "t": why.now_ms / 1000,
            "reason": why.waiting.reason.name,
            "facts": dict(why.waiting.facts),
            "why": why.waiting.explain(),
            "until": sorted(happening.value for happening in why.waiting.reason.until),
            "nodes": [_lack(lack) for lack in why.lacks],
            "ahead": _plain(why.ahead),
            "first": why.first and {"reason": why.first.reason.name, "facts": dict(why.first.facts)},
            "rivals": [_plain(rival) for rival in why.rivals],
            "reserved": list(why.reserved),
            "share": _plain(why.share),
            "estimate": _plain(why.estimate),
            "leaving": [_plain(one) for one in why.leaving],
            "helps": [_plain(one) for one in why.helps],
        }
    return {"job": story.job.id, "queue": story.job.queue, "text": "\n\n".join(in_words(told)), "waiting": facts}


def _lack(lack: Lack) -> dict[str, Any]:
    amounts = {name: format_amount(lack.dimension, getattr(lack, name)) for name in ("asked", "most")}
    return {**_plain(lack), **(amounts if lack.asked else {"asked": None, "most": None})}


def _plain(value: Any) -> Any:
    """A value as JSON knows it: times in seconds, names as in the rest of our JSON."""
    if value is None:
        return None
    told: dict[str, Any] = {}
    for name, each in asdict(value).items():
        if name.endswith("_ms"):
            told[_camel(name.removesuffix("_ms"))] = each / 1000
        elif isinstance(each, Resources):
            told[_camel(name)] = each.to_text()
        else:
            told[_camel(name)] = each.value if isinstance(each, Enum) else each
    return told


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
