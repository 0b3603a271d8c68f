"""`muster simulate`: a scenario in, a table or JSON out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from muster.cli.ending import BAD_INPUT, ending_well
from muster.cli.results import NoResult, Results, results
from muster.engine.kernels import suited_to
from muster.model.errors import InvalidValue
from muster.sim.lines import dumps, lines
from muster.sim.pool_table import show_pools
from muster.sim.scenario.loader import load
from muster.sim.scenario.problems import ScenarioError
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation, Tick, settle_memory
from muster.sim.summary import Summary
from muster.sim.table import show
from muster.sim.traces.choices import OPTIONS
from muster.state.pools import told
from muster.state.record import Recorder
from muster.state.run import Listener

SHOW_PROGRESS_FROM = 500  # jobs
BAR_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The flags of `muster simulate`."""

    estimates: str
    check: bool
    every_turn: bool
    reasons: bool
    record: str | None
    why: str | None
    pools: bool
    trace: Mapping[str, Any]  # the fields of muster.sim.traces.formats.Trace; None for what nobody said
    report: str | None = None
    parquet: str | None = None


def run(file: str | None, output: str, asked: Asked) -> int:
    """Simulate the file and print; the exit code."""
    return ending_well(lambda: _run(file, output, asked))


def _run(file: str | None, output: str, asked: Asked) -> int:
    beside = [asked.trace["nodes"], asked.trace["measured"]]
    inputs = [path for path in (*beside, file, asked.trace["path"]) if path]
    try:
        with results(inputs, report=asked.report, parquet=asked.parquet) as kept:
            return _run_for(kept, file, output, asked)
    except NoResult as err:
        print(err, file=sys.stderr)
        return BAD_INPUT


def _run_for(kept: Results, file: str | None, output: str, asked: Asked) -> int:
    try:
        suited_to(0)  # a wrong setting is said before any work
        said = {field: value for field, value in asked.trace.items() if value is not None}
        if "path" in said:
            scenario = _of_trace(file, said)
            file = said["path"]
        elif said:
            field, value = next(iter(said.items()))
            raise InvalidValue(str(value), "only with --trace, which says what is read", OPTIONS[field])
        elif file is not None:
            scenario = load(file)
        else:
            print("a scenario file or --trace is needed; see muster simulate --help", file=sys.stderr)
            return BAD_INPUT
    except (InvalidValue, ScenarioError) as err:
        print(err, file=sys.stderr)
        return BAD_INPUT
    if asked.pools and output == "jsonl":
        print("--pools: not together with -o jsonl, which prints events and nothing else", file=sys.stderr)
        return BAD_INPUT
    if asked.why is not None:
        return _answer(scenario, output, asked)
    return _recorded(kept, scenario, file, output, asked)


def _of_trace(file: str | None, fields: Mapping[str, Any]) -> Scenario:
    """The jobs of a trace, in the world that the file describes."""
    from muster.sim.traces.formats import Trace, trace_policy
    from muster.sim.traces.loading import load_trace

    trace = Trace(**fields)
    around = None if file is None else load(file, trace_policy(trace.format))
    if around is not None and (around.jobs or around.nodes or around.events):
        raise InvalidValue(
            file, "with --trace, a file without clusters, jobs and events: those are the trace's", "FILE"
        )
    with Console(stderr=True).status(f"reading {os.path.basename(trace.path)}"):  # to whoever looks
        return load_trace(trace, around)


def _recorded(kept: Results, scenario: Scenario, file: str, output: str, asked: Asked) -> int:
    estimates = {"auto": None, "all": True, "none": False}[asked.estimates] if output == "jsonl" else False

    def simulation(listener: Listener | None = None) -> Simulation:
        return Simulation(
            scenario,
            skips_turns=not asked.every_turn,
            tells_why=asked.reasons,
            estimates=estimates,
            listener=listener,
        )

    if asked.record is None:
        return _simulate(simulation(), kept, output, asked)
    if os.path.exists(asked.record) and os.path.samefile(asked.record, file):
        print(f"--record {asked.record}: that is the scenario itself", file=sys.stderr)
        return BAD_INPUT
    try:
        with open(asked.record, "wb") as target, Recorder(target, scenario.policy) as recorder:
            return _simulate(simulation(recorder), kept, output, asked)
    except BrokenPipeError:
        raise
    except OSError as err:
        print(f"--record {asked.record}: cannot be written: {err.strerror or err}", file=sys.stderr)
        return BAD_INPUT


def _answer(scenario: Scenario, output: str, asked: Asked) -> int:
    from muster.cli.why import run

    others = {"--record": asked.record, "--check": asked.check, "--pools": asked.pools}
    others |= {"--report": asked.report, "--parquet": asked.parquet}
    if any(others.values()):
        message = f"--why: not together with {', '.join(others)}: it stops at the moment in question"
        print(message, file=sys.stderr)
        return BAD_INPUT
    return run(scenario, asked.why or "", output)


def _simulate(simulation: Simulation, kept: Results, output: str, asked: Asked) -> int:
    settle_memory()
    violations: list[str] = []
    if asked.check:
        _watch(simulation, violations)
    if output == "jsonl":
        for tick in kept.follow(simulation, _with_progress(simulation)):
            for line in lines(tick):
                print(dumps(line))
    else:
        summary = Summary(simulation)
        for tick in kept.follow(simulation, _with_progress(simulation)):
            summary.add(tick)
        _print_summary(summary, output, asked)
    sys.stdout.flush()
    kept.keep(simulation.scenario)
    for violation in violations:
        print(f"check: {violation}", file=sys.stderr)
    return 1 if violations else 0


def _print_summary(summary: Summary, output: str, asked: Asked) -> None:
    if output == "summary":
        totals = msgspec.json.encode(summary.totals())  # json takes a while to indent a million jobs
        print(msgspec.json.format(totals, indent=2).decode())
        return
    width = None if sys.stdout.isatty() else 160
    console = Console(width=width, highlight=False, soft_wrap=False)
    show(summary, console)
    if asked.pools:
        console.print()
        console.print(show_pools(told(summary.pool_table())))


def _watch(simulation: Simulation, violations: list[str]) -> None:
    """Hold every plan to the rules, by code that shares nothing with the engine."""
    from muster.sim.checker import check

    simulation.run.watch = lambda snapshot, plan: violations.extend(check(snapshot, plan))


def _with_progress(simulation: Simulation) -> Iterator[Tick]:
    """The simulation's ticks, with a bar on standard error when it is long and someone is looking."""
    jobs = len(simulation.scenario.jobs)
    with _progress(jobs) as show:
        done = shown = 0
        for tick in simulation:
            done += len(tick.moment.over)
            if done - shown >= jobs / BAR_STEPS:  # to move the bar takes as long as a moment of a simulation
                shown = done
                show(done)
            yield tick


@contextmanager
def _progress(jobs: int) -> Iterator[Callable[[int], None]]:
    """To be told how many jobs are done."""
    if jobs < SHOW_PROGRESS_FROM or not sys.stderr.isatty():
        yield lambda _done: None
        return
    columns = (TextColumn("simulating"), BarColumn(), TextColumn("{task.completed}/{task.total} jobs done"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("jobs", total=jobs)
        yield lambda done: progress.update(task, completed=done)
