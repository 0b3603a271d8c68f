"""Why our reproduction of E2's baselines differs from the publication: replays with its choices, and with Muster's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean
from typing import NamedTuple

from evidence.e2_plain import Choices, Plain, arrival, most_used, replayed, shortest, smallest, wfp3
from evidence.experiment import Case, Outcome
from evidence.traces import trace
from evidence.writing import table
from muster.sim.traces import swf
from muster.sim.traces.lines import lines

MOST = "plain/most"
MARK_S = 600  # how far apart the moments are at which the engine looks at an order that changes with time


class Asked(NamedTuple):
    """A published number: on which file, of which machine, under which orders."""

    file: str
    processors: int
    choices: Choices
    published: str
    engine: str | None  # the case that has the same orders
    starts: tuple[int, ...] = ()  # of sequences; none: the whole log


_FCFS, _SJF, _SAF, _WFP3 = (
    Choices(head=head, backfill=backfill)
    for head, backfill in ((arrival, arrival), (arrival, shortest), (smallest, smallest), (wfp3, wfp3))
)


def asked(logs: Mapping[str, tuple[str, int]], starts: tuple[int, ...]) -> Mapping[str, Asked]:
    """What is replayed, by a name; `logs` has a file and how many processors its machine has."""
    kth, mira, first, second = (logs[name] for name in ("kth", "mira", "lublin-1", "lublin-2"))
    return {
        "kth/fcfs": Asked(*kth, _FCFS, "89.43 / 6,832", "kth/easy-fcfs"),
        "kth/fcfs-sjf": Asked(*kth, _SJF, "69.95 / 6,010", None),
        "kth/saf": Asked(*kth, _SAF, "44.90", "kth/easy-saf"),
        "mira/fcfs": Asked(*mira, _FCFS, "45.42 / 47,710", "mira/easy-fcfs"),
        "mira/fcfs-sjf": Asked(*mira, _SJF, "36.42 / 38,979", None),
        "mira/saf": Asked(*mira, _SAF, "36.14", "mira/easy-saf"),
        "lublin-1/wfp3": Asked(*first, _WFP3, "81.09", "lublin-1/easy-wfp3", starts),
        "lublin-2/wfp3": Asked(*second, _WFP3, "71.34", "lublin-2/easy-wfp3", starts),
    }


def cases(all_asked: Mapping[str, Asked], most: Asked) -> Sequence[Case]:
    """Each with both choices; and the most that a log could have used."""
    keys = [(name, own) for name in all_asked for own in (False, True)]
    replays = [
        Case(key=replay_key(name, own=own), work=partial(replay, all_asked[name], own=own)) for name, own in keys
    ]
    return [*replays, Case(key=MOST, work=partial(most_of, most))]


def replay_key(name: str, *, own: bool) -> str:
    """What a replay is called, with Muster's choices or those of the publication."""
    return f"plain/{name}/{'muster' if own else 'published'}"


def replay(it: Asked, *, own: bool) -> Outcome:
    """One published number by the plain scheduler, with Muster's choices or those of the publication."""
    choices = replace(it.choices, counts_what_is_needed=False, order_every=MARK_S) if own else it.choices
    jobs = read(it, own=own)
    parts = [jobs[start : start + 1024] for start in it.starts] or [jobs]
    told = [replayed(_from_zero(part), it.processors, choices) for part in parts]
    return Outcome(facts={name: mean(each[name] for each in told) for name in told[0]})


def most_of(it: Asked) -> Outcome:
    """The most of a machine that any schedule of a log can use."""
    return Outcome(facts={"used": most_used(read(it, own=True), it.processors)})


def read(it: Asked, *, own: bool) -> list[Plain]:
    """The jobs of a log in the order they came. The publication goes by the processors a job got, Muster by those it
    asked for; of jobs of one second it takes the one first that the file has first, Muster the lower job number."""
    found = []
    for line in lines(str(trace("swf", it.file)), comment=";"):
        got, wished = (line.whole(field, "processors", none=-1) for field in (swf.GOT, swf.ASKED))
        size = (wished if wished > 0 else got) if own else (got if got > 0 else wished)
        run = line.whole(swf.RUN, "run time", none=-1)
        time = run if it.starts else line.whole(swf.TIME, "requested time", none=-1)
        if run >= 0 and size > 0:
            job = Plain(line.whole(swf.SUBMIT, "submit time"), run, size, max(time, run))
            found.append((job.submit, int(line.parts[swf.JOB]) if own else 0, job))
    return [job for *_, job in sorted(found, key=lambda entry: entry[:2])]


def _from_zero(jobs: Sequence[Plain]) -> list[Plain]:
    return [job._replace(submit=job.submit - jobs[0].submit) for job in jobs]


def section(all_asked: Mapping[str, Asked], outcomes: Mapping[str, Outcome]) -> list[str]:
    """The part of the chapter that says where differences come from."""
    rows = []
    for name, it in all_asked.items():
        both = [outcomes.get(replay_key(name, own=own)) for own in (False, True)]
        engine = outcomes.get(it.engine) if it.engine else None
        has_wait = "/" in it.published
        rows.append([name, it.published, *(_told(each, has_wait) for each in (*both, engine))])
    return [
        "Where ours and the publication differ, it is by what textbooks leave open. A plain EASY scheduler without the"
        " engine (`evidence/e2_plain.py`) gives both: the published numbers with the publication's choices, and the"
        " engine's with Muster's. (1) What will be left over when the head may start: the publication counts, of the"
        " jobs expected to end in that second, only as many as the head needs; Muster all of them. (2) The publication"
        " takes the processors a job got, Muster those it asked for. (3) Of jobs submitted in the same second the"
        " publication starts with the first in the file, Muster with the lowest number. (4) WFP3 changes with time:"
        f" the publication sorts at each event, Muster every {MARK_S // 60} minutes, when it also starts what may."
        " Orders that let large jobs wait for ever (SAF) multiply such differences. fcfs-sjf: first come, first served,"
        " with the shortest first in what is backfilled.",
        "",
        *table(["slowdown / mean wait", "published", "its choices", "Muster's choices", "Muster's engine"], rows),
    ]


def _told(outcome: Outcome | None, has_wait: bool) -> str:
    if outcome is None:
        return "–"
    slowdown = f"{float(outcome.facts['slowdown']):.2f}"
    return f"{slowdown} / {float(outcome.facts['wait']):,.0f}" if has_wait else slowdown
