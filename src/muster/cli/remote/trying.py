"""`muster whatif` without a file: the question to a server, and its answer in words."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.cli.ending import BAD_INPUT
from muster.cli.remote.asking import asked
from muster.cli.remote.submitting import in_file
from muster.cli.remote.tables import Column, age, clean, clock, print_table
from muster.cli.remote.where import Where
from muster.documents import document
from muster.documents.jobs.making import from_command
from muster.documents.jobs.reading import JobProblems
from muster.documents.problems import DocumentError
from muster.documents.values import plain
from muster.model.errors import InvalidValue
from muster.sdk import asking
from muster.sdk.shapes import WhatIf, WhatIfFuture, WhatIfJob, WhatIfPreemption

MOST_ROWS = 40
NOW = "0"
_SAME_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked. `said`: a job that came, or how one is changed, by the keys of job files."""

    at: str = NOW
    events: Sequence[str] = ()
    submits: Sequence[str] = ()
    said: Mapping[str, Any] = field(default_factory=dict)
    knows_runtimes: bool = False


def ask_server(where: Where, question: Question) -> int:
    """Ask and print; the exit code."""
    try:
        jobs, events = list(jobs_of(question)), list(events_of(question))
    except DocumentError as err:
        for problem in err.problems:
            print(f"{err.name}: {problem}" if err.name else problem, file=sys.stderr)
        return BAD_INPUT
    except InvalidValue as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    return asked(where, lambda: asking.whatif(jobs, events), show)


def jobs_of(question: Question) -> Iterator[Mapping[str, Any]]:
    """The jobs that are tried, as job files have them."""
    if question.knows_runtimes:
        raise InvalidValue("--real-runtimes", "about a scenario file: nobody knows how long real jobs run", "whatif")
    for text in question.submits:
        if text.lstrip().startswith("{"):
            yield _mapping("--submit", text)
        else:
            yield from in_file(text)
    if question.said and "job" not in question.said:
        yield from_command([], **question.said)
    is_late = question.at != NOW
    if is_late and (question.submits or (question.said and "job" not in question.said)):
        raise InvalidValue(question.at, "about events: jobs are tried as if they came now", "--at")


def events_of(question: Question) -> Iterator[Mapping[str, Any]]:
    """The events that are tried, as scenarios write them."""
    said = dict(question.said)
    when = {} if question.at == NOW else {"at": question.at}
    if "job" in said:
        changed = {"name": said.pop("job"), **said}
        unfit = [name for name in said if name not in ("priority", "priorityClass")]
        if unfit or not said:
            raise InvalidValue(unfit[0] if unfit else "nothing", "--priority, --class or both", "--job: change what")
        yield {**when, "setJob": changed}
    for text in question.events:
        yield {**when, **_mapping("--event", text)}


def _mapping(flag: str, text: str) -> dict[str, Any]:
    problems = JobProblems(flag)
    value = plain(document.read(document.encoded(text, problems), problems))
    if problems:
        raise problems.error()
    if not isinstance(value, dict):
        raise InvalidValue(text, "a mapping such as {drainNode: n-1}", flag)
    return value


# --- the answer -----------------------------------------------------------------------------------


def show(answer: WhatIf, wide: bool) -> None:
    """When and where those start that were asked about, who else starts at another time, and who gives way."""
    for it in answer.jobs:
        if it.asked:
            for line in in_words(it, answer.at):
                print(clean(line))
    others = [it for it in answer.jobs if not it.asked]
    if others:
        print()
        print_table(others[:MOST_ROWS], _columns(answer.at), wide=wide, none="")
    if len(others) + answer.more > MOST_ROWS:
        print(f"… and {len(others) + answer.more - MOST_ROWS} more jobs: -o json tells of them")
    if rows := list(_preemptions(answer)):
        print()
        print_table(rows[:MOST_ROWS], _PREEMPTED, wide=wide, none="")
    print()
    print(in_all(answer))


def in_words(it: WhatIfJob, at: float) -> Iterator[str]:
    """What becomes of a job that was asked about."""
    ahead, before = it.with_it, it.without
    if not ahead.starts:
        now = "runs on" if ahead.running_since is not None else "would not start as far as can be seen"
        told = f"{it.job} ({it.queue}) {now}"
    else:
        told = f"{it.job} ({it.queue}) would start {_moment(ahead, at)}"
        if ahead.cluster:
            told += f" on {ahead.cluster}: {' '.join(ahead.nodes[:8])}{' …' if len(ahead.nodes) > 8 else ''}"
    if before is not None:
        told += f"; without the change {_moment(before, at) if _is_known(before) else 'not as far as can be seen'}"
        told += "" if it.earlier is None else f", so {_gain(it)}"
    yield told
    if ahead.reason is not None:
        yield f"  at first it would wait: {ahead.reason}: {ahead.text}"


def _is_known(ahead: WhatIfFuture) -> bool:
    return bool(ahead.starts) or ahead.running_since is not None


def _moment(ahead: WhatIfFuture, at: float) -> str:
    if not ahead.starts:
        return "-" if ahead.running_since is None else f"since {clock(ahead.running_since)}"
    last, guess = ahead.starts[-1], "~" if ahead.assumed else ""
    when = "now" if last - at < _SAME_S else f"{guess}{clock(last)} (in {age(last - at)})"
    again = "again " if len(ahead.starts) > 1 or ahead.running_since is not None else ""
    return again + when


def _gain(it: WhatIfJob) -> str:
    if it.new:
        return "new"
    if it.earlier is None:
        return "would start" if _is_known(it.with_it) else "would not start"
    if abs(it.earlier) < _SAME_S:
        return "at the same time"
    return f"{age(abs(it.earlier))} {'earlier' if it.earlier > 0 else 'later'}"


def _columns(at: float) -> tuple[Column, ...]:
    return (
        Column("JOB", lambda it: it.job),
        Column("QUEUE", lambda it: it.queue),
        Column("STARTS WITHOUT IT", lambda it: "" if it.without is None else _moment(it.without, at)),
        Column("WITH IT", lambda it: _moment(it.with_it, at)),
        Column("", _gain),
    )


_PREEMPTED = (
    Column("PREEMPTED", lambda row: row[0].job),
    Column("FOR", lambda row: row[0].by),
    Column("RULE", lambda row: row[0].rule),
    Column("AT", lambda row: clock(row[0].t)),
    Column("", lambda row: row[1]),
)


def _preemptions(answer: WhatIf) -> Iterator[tuple[WhatIfPreemption, str]]:
    """Who gives way with the change, and who no longer does."""

    def named(one: WhatIfPreemption) -> tuple[str, str, str]:
        return (one.job, one.by, one.rule)

    without, with_it = ({named(it) for it in they} for they in (answer.preempted.without, answer.preempted.with_it))
    for it in answer.preempted.with_it:
        yield it, "also without it" if named(it) in without else "only with it"
    for it in answer.preempted.without:
        if named(it) not in with_it:
            yield it, "only without it"


def in_all(answer: WhatIf) -> str:
    """How everyone else fares, and what the answer rests on."""
    hidden = f" ({answer.hidden} of them you may not see)" if answer.hidden else ""
    told = [f"{answer.earlier} earlier, {answer.later} later, {answer.same} as without it{hidden}"]
    if any(ahead.assumed for it in answer.jobs for ahead in (it.without, it.with_it) if ahead is not None):
        told.append("~ rests on a run time that nobody stated: as long again as so far, at least 10 minutes")
    if not answer.complete:
        told.append(f"cut short: there was time to look ahead until {clock(answer.until)}, later starts are not known")
    if answer.paused:
        told.append("the server is paused: nothing of this happens before `muster resume`")
    return "\n".join(told)
