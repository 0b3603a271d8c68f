"""The report: one HTML file with all there is to know of a simulation, for someone who was not there.

It fetches nothing and runs from a disk. The page allows only its own style and script, by their hashes, so that even
a name that was not escaped could do no harm.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from importlib.resources import files

import numpy as np

from muster import __version__
from muster.sim.measures import Distribution, Measured, QueueFairness, Spread
from muster.sim.report import words, world
from muster.sim.report.pictures import MOST_QUEUES, Pictures
from muster.sim.report.tables import Bar, Column, table
from muster.sim.report.texts import DEFINITIONS, REASONS
from muster.sim.scenario.scenario import Scenario

_MOST_ROWS = 200  # of the table of queues
_GANGS = 10


def page(scenario: Scenario, measured: Measured, name: str) -> str:
    """The whole file. `name`: what was simulated."""
    style, script = _asset("page.css"), _asset("page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'"
    body = "\n".join(_sections(scenario, measured, name))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="Muster {escape(__version__)}">\n'
        f"<title>{escape(name)} – Muster simulation report</title>\n<style>{style}</style>\n</head>\n"
        f"<body>\n{body}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return files("muster.sim.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _sections(scenario: Scenario, measured: Measured, name: str) -> Iterator[str]:
    pictures = Pictures(measured)
    yield f'<header><p class="kicker">Muster simulation report</p><h1>{escape(name)}</h1>{_lead(measured)}</header>'
    yield "<main>"
    yield _section("Results", _tiles(measured))
    yield _section("What was simulated", _simulated(scenario, measured))
    yield _section("Over time", _plots(pictures.use(), pictures.jobs(), pictures.idle()))
    yield _section("Shares against fair shares", _shares(measured, pictures))
    yield _section("Waiting and slowdown", _waiting(measured, pictures))
    yield _section("What jobs waited for", _reasons(measured))
    yield _section("Jobs that waited longest", _longest(measured))
    if gangs := _gangs(measured):
        yield _section("Widest jobs", gangs)
    yield _section("What the numbers mean", _definitions())
    yield "</main>"
    yield f"<footer><p>Made by Muster {escape(__version__)}. The same scenario gives the same report.</p></footer>"


def _section(title: str, body: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}</section>"


def _plots(*figures: str, small: bool = False) -> str:
    return f'<div class="plots{" small" if small else ""}">{"".join(figures)}</div>'


# --- at a glance ------------------------------------------------------------------------------------------


def _lead(measured: Measured) -> str:
    phases, jobs = measured.jobs.phases(), len(measured.jobs.ids)
    rest = [f"{words.count(many)} {phase}" for phase, many in phases.items() if phase != "succeeded"]
    told = f"{words.count(phases.get('succeeded', 0))} of {words.count(jobs)} jobs succeeded"
    told += f" ({words.listed(rest)})" if rest else ""
    return f"<p>{escape(told)} in {escape(words.span(measured.end_ms))} of simulated time.</p>"


def _tiles(measured: Measured) -> str:
    fairness, wait, slow = measured.fairness, measured.all_jobs.wait_s, measured.all_jobs.slowdown
    worst, off = fairness.worst, fairness.worst_off
    main = words.resource(measured.main)
    tiles = [
        (f"{main} in use", words.percent(measured.used.get(measured.main)), _others(measured, measured.used)),
        (f"goodput of {main}", words.percent(measured.good.get(measured.main)), _others(measured, measured.good)),
        ("mean wait", words.duration(wait.mean if wait else None), _tail(wait, words.duration)),
        ("mean bounded slowdown", words.number(slow.mean if slow else None), _tail(slow, words.number)),
        (
            "shortfall of fair shares",
            words.percent(fairness.shortfall),
            f"worst queue: {off.name}, {words.percent(off.shortfall)}" if off else "",
        ),
        (
            "worst hour of a queue",
            words.percent(worst.shortfall) if worst else "none",
            f"{worst.queue}, from {words.span(worst.from_ms)} on"
            if worst
            else "no queue had work waiting for an hour on end",
        ),
        ("Jain's index", f"{fairness.jain:.3f}", "1: all received the same part of their due"),
        (
            f"idle {main} jobs waited for",
            words.percent(measured.asked),
            f"{words.percent(measured.unusable)} where no waiting task fits",
        ),
        ("attempts that ended early", words.count(sum(measured.requeues.values())), _causes(measured)),
    ]
    return '<dl class="tiles">' + "".join(_tile(*tile) for tile in tiles) + "</dl>"


def _tile(name: str, value: str, note: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"


def _others(measured: Measured, parts: Mapping[str, float]) -> str:
    """The same of the other resources."""
    others = [(name, part) for name, part in parts.items() if name != measured.main]
    return ", ".join(f"{words.resource(name)} {words.percent(part)}" for name, part in others)


def _tail(spread: Distribution | None, say: words.Say) -> str:
    if spread is None:
        return ""
    return (
        f"median {say(spread.percentiles[50])}, 95 % {say(spread.percentiles[95])}, most {say(spread.percentiles[100])}"
    )


def _causes(measured: Measured) -> str:
    return ", ".join(f"{words.count(many)} {cause}" for cause, many in measured.requeues.items()) or "none was requeued"


# --- the world --------------------------------------------------------------------------------------------


def _simulated(scenario: Scenario, measured: Measured) -> str:
    jobs = measured.jobs
    last_s = int(jobs.submit.max(initial=0)) / 1000
    arrive = f"arriving over {words.duration(last_s)}" if last_s else "all there from the beginning"
    widest = int(jobs.width.max(initial=0))
    gangs = int((jobs.tasks > 1).sum())
    told = f"{words.count(len(jobs.ids))} jobs, {arrive}"
    told += f"; gangs of several tasks among them: {words.count(gangs)}" if gangs else ""
    told += f"; the widest needs {words.amount(measured.main, widest)}." if widest else "."
    rows = [("Jobs", told), ("Fleet", world.fleet(scenario)), ("Queues", world.queues(scenario))]
    if scenario.events:
        rows.append(("Script", f"{words.count(len(scenario.events))} events happen, whatever the scheduler does."))
    facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows)
    rules = "".join(f"<li>{escape(key)}: <b>{escape(value)}</b></li>" for key, value in world.rules(scenario.policy))
    return f'<dl class="facts">{facts}<dt>Policy</dt><dd><ul class="rules">{rules}</ul></dd></dl>'


# --- shares -----------------------------------------------------------------------------------------------


def _shares(measured: Measured, pictures: Pictures) -> str:
    lead = (
        "A queue is entitled to its part of the fleet by weight, never to more than its jobs ask for; what some do not "
        "need the others get. Filled: what it held. Line: what it was entitled to at that time."
    )
    shown, counted = len(pictures.shown_queues()), len(measured.fairness.queues)
    if counted > shown:
        lead += f" Shown are the {min(shown, MOST_QUEUES)} of {words.count(counted)} queues that were entitled to most."
    return f"<p>{escape(lead)}</p>{_plots(*pictures.queues(), small=True)}{_queues(measured)}"


def _queues(measured: Measured) -> str:
    columns = [
        Column("queue", "names"),
        Column("weight"),
        Column("jobs"),
        Column("entitled to", meaning="mean part of the fleet"),
        Column("held", meaning="mean part of the fleet"),
        Column("shortfall", meaning="part of what it was entitled to that it did not hold"),
        Column("worst hour", meaning="the same, of the worst hour throughout which it had work waiting"),
        Column("below half", meaning="longest time with work waiting and less than half of its due"),
        Column("median wait"),
        Column("95 % wait"),
        Column("longest wait"),
        Column("mean slowdown"),
    ]
    pairs = list(zip(measured.fairness.queues, measured.by_queue, strict=True))
    pairs.sort(key=lambda pair: (-pair[0].entitled, pair[0].name))
    rows = [_queue(queue, spread) for queue, spread in pairs[:_MOST_ROWS]]
    more = f" (the first {_MOST_ROWS} of {words.count(len(pairs))})" if len(pairs) > _MOST_ROWS else ""
    return table(f"Queues, the most entitled first{more}", columns, rows)


def _queue(queue: QueueFairness, spread: Spread) -> list[str | Bar]:
    return [
        queue.name or "(none)",
        f"{queue.weight:g}",
        words.count(spread.jobs),
        words.percent(queue.entitled),
        words.percent(queue.held),
        Bar(words.percent(queue.shortfall), queue.shortfall or 0.0),
        words.percent(queue.worst.shortfall if queue.worst else None),
        words.span(queue.below_half_ms) if queue.below_half_ms else "–",
        *_waits(spread),
        words.number(spread.slowdown.mean if spread.slowdown else None),
    ]


def _waits(spread: Spread) -> list[str]:
    if spread.wait_s is None:
        return ["–"] * 3
    return [words.duration(spread.wait_s.percentiles[percent]) for percent in (50, 95, 100)]


# --- waiting ----------------------------------------------------------------------------------------------


def _waiting(measured: Measured, pictures: Pictures) -> str:
    columns = [
        Column(f"{words.resource(measured.main)} a job needs", "names"),
        Column("jobs"),
        Column("started"),
        Column("mean wait"),
        Column("median wait"),
        Column("95 % wait"),
        Column("longest wait"),
        Column("mean slowdown"),
        Column("median slowdown"),
        Column("95 % slowdown"),
    ]
    rows = [_width(spread) for spread in (measured.all_jobs, *measured.by_width)]
    told = table("Waiting time and bounded slowdown by width", columns, rows)
    return _plots(pictures.waits(), pictures.slowdowns()) + told


def _width(spread: Spread) -> list[str]:
    slow = spread.slowdown
    return [
        spread.name,
        words.count(spread.jobs),
        words.count(spread.wait_s.count if spread.wait_s else 0),
        words.duration(spread.wait_s.mean if spread.wait_s else None),
        *_waits(spread),
        words.number(slow.mean if slow else None),
        words.number(slow.percentiles[50] if slow else None),
        words.number(slow.percentiles[95] if slow else None),
    ]


def _reasons(measured: Measured) -> str:
    if not measured.reasons:
        return "<p>Nobody waited.</p>"
    whole = sum(it.waited_ms for it in measured.reasons) or 1
    columns = [
        Column("reason", "names"),
        Column("in words", "words"),
        Column("jobs"),
        Column("job hours"),
        Column("part of all waiting"),
    ]
    rows: list[list[str | Bar]] = [
        [
            it.reason.name,
            REASONS.get(it.reason, ""),
            words.count(it.jobs),
            words.number(it.waited_ms / 3_600_000),
            Bar(words.percent(it.waited_ms / whole), it.waited_ms / whole),
        ]
        for it in measured.reasons
    ]
    return table("Reasons, by the time for which each was the last that jobs were told", columns, rows)


def _longest(measured: Measured) -> str:
    if not measured.longest:
        return "<p>Nobody waited.</p>"
    jobs = measured.jobs
    columns = [
        Column("job", "names"),
        Column("queue", "names"),
        Column(words.resource(measured.main)),
        Column("submitted"),
        Column("waited"),
        Column("then", "names"),
        Column("what it was last told", "words"),
        Column("also waited for", "names"),
    ]
    rows = [
        [
            jobs.ids[stay.row],
            jobs.queues[jobs.queue[stay.row]],
            words.number(float(jobs.width[stay.row]) / measured.unit),
            words.span(float(jobs.submit[stay.row])),
            words.span(stay.waited_ms),
            "started" if jobs.start[stay.row] >= 0 else jobs.phase_of(stay.row),
            f"{stay.reason}: {stay.sentence}",
            ", ".join(it.name for it in jobs.reasons_of(stay.row) if it.name != stay.reason),
        ]
        for stay in measured.longest
    ]
    return table("The longest waits until a first start", columns, rows)


def _gangs(measured: Measured) -> str:
    jobs = measured.jobs
    wide = np.flatnonzero(jobs.tasks > 1)
    if not len(wide):
        return ""
    chosen = wide[np.lexsort((wide, -jobs.tasks[wide], -jobs.width[wide]))][:_GANGS]
    columns = [
        Column("gang", "names"),
        Column("queue", "names"),
        Column("tasks"),
        Column(words.resource(measured.main)),
        Column("submitted"),
        Column("waited"),
        Column("ran"),
        Column("attempts"),
        Column("state", "names"),
    ]
    waits = jobs.wait_s
    rows = [
        [
            jobs.ids[row],
            jobs.queues[jobs.queue[row]],
            words.count(jobs.tasks[row]),
            words.number(float(jobs.width[row]) / measured.unit),
            words.span(float(jobs.submit[row])),
            words.duration(float(waits[row])),
            words.span(float(jobs.end[row] - jobs.last_start[row]))
            if jobs.end[row] >= 0 <= jobs.last_start[row]
            else "–",
            words.count(jobs.attempts[row]),
            jobs.phase_of(row),
        ]
        for row in chosen.tolist()
    ]
    return table("Gangs: all tasks start together, or none", columns, rows)


def _definitions() -> str:
    told = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in DEFINITIONS.items())
    return f'<dl class="facts">{told}</dl>'
