"""`muster replay`: recorded turns in, the first difference out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from muster.cli.ending import BAD_INPUT, ending_well
from muster.engine.kernels import suited_to
from muster.model.errors import InvalidValue
from muster.sim.table import clock
from muster.state.record import Record, RecordError, Replay
from muster.state.record.replay import Turn

SHOW_PROGRESS_FROM = 200  # turns

SAME, DIFFERENT = 0, 1


def run(file: str, output: str) -> int:
    """Replay the file and print; the exit code."""
    return ending_well(lambda: _run(file, output))


def _run(file: str, output: str) -> int:
    try:
        suited_to(0)  # a wrong setting is said before any work
        with open(file, "rb") as opened:
            replay = Replay(Record(opened))
            differing = [turn for turn in _with_progress(replay) if turn.difference is not None]
    except (InvalidValue, RecordError, OSError, ValueError) as err:
        reason = err.strerror if isinstance(err, OSError) and err.strerror else err
        print(f"{file}: {reason}", file=sys.stderr)
        return BAD_INPUT
    print(_as_json(replay, differing) if output == "json" else _in_words(replay, differing))
    return DIFFERENT if differing else SAME


def _in_words(replay: Replay, differing: list[Turn]) -> str:
    turns, by = replay.record.turns, f"recorded by Muster {replay.record.by}"
    if not differing or (found := differing[0].difference) is None:
        return f"all {turns} plans are identical ({replay.jobs} jobs, {replay.events} events; {by})"
    first = differing[0]
    return (
        f"turn {first.number} of {turns}, at {clock(first.now_ms / 1000)}: {found.what} is another\n"
        f"  recorded  {found.recorded}\n"
        f"  now       {found.now}\n"
        f"{len(differing)} of {turns} plans differ; this is the first ({by})"
    )


def _as_json(replay: Replay, differing: list[Turn]) -> str:
    first: dict[str, object] | None = None
    if differing and (found := differing[0].difference) is not None:
        first = {"turn": differing[0].number, "t": differing[0].now_ms / 1000, "what": found.what}
        first |= {"recorded": found.recorded, "now": found.now}
    told = {
        "turns": replay.record.turns,
        "jobs": replay.jobs,
        "events": replay.events,
        "recordedBy": replay.record.by,
        "identical": not differing,
        "differing": [turn.number for turn in differing],
        "first": first,
    }
    return json.dumps(told, ensure_ascii=False, indent=2)


def _with_progress(replay: Replay) -> Iterator[Turn]:
    """The turns, with a bar on standard error when there are many and someone is looking."""
    if replay.record.turns < SHOW_PROGRESS_FROM or not sys.stderr.isatty():
        yield from replay
        return
    columns = (TextColumn("replaying"), BarColumn(), TextColumn("{task.completed}/{task.total} turns"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("turns", total=replay.record.turns)
        for turn in replay:
            progress.advance(task)
            yield turn
