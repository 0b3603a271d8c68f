"""`python -m evidence [E1 …]`: run experiments, or what is left of them, and write their chapters.

`E2/kth` runs only the cases of an experiment whose names begin so; the chapter then tells of all that are known.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import active_children

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evidence.experiment import Case, Experiment, Outcome, timed
from evidence.keeping import ROOT, Shelf
from evidence.traces import MissingTrace

EXPERIMENTS = {
    "E0": "evidence.e0_days",
    "E1": "evidence.e1_fragmentation",
    "E2": "evidence.e2_backfill",
    "E3": "evidence.e3_fairness",
    "E4": "evidence.e4_width",
    "E5": "evidence.e5_unequal",
}
_TOLD = 5  # slow cases
REPORT = ROOT / "docs" / "evidence.md"
INTRODUCTION = """# Evidence

Written by `make evidence`; one experiment: `make evidence E=E2`. Muster and plain baselines on public traces, each with
what was published about it. The baselines are configurations of the same engine.
"""


def main() -> int:
    """Run what was asked for."""
    asked = [name.partition("/") for name in sys.argv[1:] or EXPERIMENTS]
    unknown = [name for name, _, _ in asked if name.upper() not in EXPERIMENTS]
    if unknown:
        print(f"no experiment called {unknown[0]!r}; there is: {', '.join(EXPERIMENTS)}", file=sys.stderr)
        return 2
    try:
        for name, _, part in asked:
            experiment: Experiment = import_module(EXPERIMENTS[name.upper()]).EXPERIMENT
            outcomes = all_outcomes(experiment, part)
            print(what_is_slow(experiment.name, Shelf(experiment.name).times(outcomes)), file=sys.stderr)
            update(experiment, experiment.chapter(outcomes))
    except MissingTrace as err:
        print(err, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what is done is kept, and the same command goes on from there", file=sys.stderr)
        return 130
    return 0


def all_outcomes(experiment: Experiment, part: str = "") -> dict[str, Outcome]:
    """What the cases of an experiment came to, on as many cores as there are; only those of one part are run anew."""
    shelf, cases = Shelf(experiment.name), experiment.cases()
    outcomes = {case.key: kept for case in cases if (kept := shelf.get(case.key)) is not None}
    left = [case for case in cases if case.key not in outcomes and case.key.startswith(part)]
    columns = (TextColumn(experiment.name), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(outcomes) + len(left), completed=len(outcomes))
        for key, (outcome, took_s) in _run(left):
            shelf.put(key, outcome, took_s)
            outcomes[key] = outcome
            progress.update(task, advance=1, description=key)
    return outcomes


def what_is_slow(name: str, times: Mapping[str, float]) -> str:
    """What the cases of an experiment took together, and which took longest."""
    slowest = sorted(times, key=lambda key: -times[key])[:_TOLD]
    told = ", ".join(f"{key} {_clock(times[key])}" for key in slowest)
    return f"{name}: {len(times)} cases took {_clock(sum(times.values()))} of CPU time; longest: {told or 'none'}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02}s"


def _run(cases: Sequence[Case]) -> Iterator[tuple[str, tuple[Outcome, float]]]:
    with ProcessPoolExecutor(max_workers=os.cpu_count(), max_tasks_per_child=1) as pool:
        running = {pool.submit(timed, case.work): case.key for case in cases}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BaseException:
            for child in active_children():
                child.terminate()
            pool.shutdown(cancel_futures=True)
            raise


def update(experiment: Experiment, chapter: str) -> None:
    """Put an experiment's chapter in the place of its last one."""
    parts = REPORT.read_text(encoding="utf-8").split("\n## ") if REPORT.exists() else [INTRODUCTION]
    found = {part.split(":", 1)[0]: part for part in parts[1:]}
    found[experiment.name] = f"{experiment.name}: {experiment.title}\n\n{chapter.strip()}\n"
    kept = ["## " + found[name].strip() + "\n" for name in EXPERIMENTS if name in found]
    REPORT.write_text("\n".join([INTRODUCTION, *kept]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
