"""The runs keep in columns what state says of running jobs, whatever happens to them."""

from __future__ import annotations

from hypothesis import given
from worlds import EVERYTHING, scenarios

from muster.engine.columns.running_jobs import MANY, Runs
from muster.engine.columns.views import Columns
from muster.model.plan import Plan
from muster.model.snapshot import Snapshot
from muster.sim.scenario.scenario import Scenario
from muster.sim.simulate import Simulation


def assert_all_there(snapshot: Snapshot, runs: Runs) -> None:
    """Every running job has one row, which says what the job says; all other rows are empty."""
    rows = {run.job.id: runs.row_of(run) for run in snapshot.running}
    assert None not in rows.values()
    assert len(set(rows.values())) == len(rows) == int((runs.table.cells[MANY] > 0).sum())
    for run in snapshot.running:
        row = runs.row_of(run)
        *numbers, first, many = runs.table.cells[:, row].tolist()
        assert (numbers, [tuple(task) for task in runs.table.tasks[first : first + many].tolist()]) == runs.numbers_of(
            run
        )
        assert runs.table.overtook.get(row or 0, ()) == run.overtook


@given(scenarios(EVERYTHING))
def test_property_runs_say_what_the_running_jobs_say(scenario: Scenario) -> None:
    def compare(snapshot: Snapshot, _: Plan) -> None:
        assert isinstance(snapshot.columns, Columns)
        runs = snapshot.columns.runs.seen()
        assert runs is not None
        assert_all_there(snapshot, runs)

    simulation = Simulation(scenario, estimates=False)
    simulation.run.watch = compare
    for _ in simulation:
        pass


@given(scenarios(EVERYTHING))
def test_property_a_fork_of_runs_goes_its_own_way(scenario: Scenario) -> None:
    simulation = Simulation(scenario, estimates=False)
    for place, _ in enumerate(simulation):
        if place == 3:
            break
    before = simulation.state.freeze(simulation.state.now_ms)
    before.settle()
    other = simulation.state.fork()
    for _ in simulation:
        pass
    columns = other.freeze(before.now_ms).columns
    assert isinstance(columns, Columns)
    runs = columns.runs.seen()
    assert runs is not None
    assert_all_there(before, runs)
