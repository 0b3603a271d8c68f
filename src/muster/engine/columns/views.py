"""The columns of a snapshot: those that state keeps, or made from values where they have moved on."""

from __future__ import annotations

from dataclasses import dataclass

from muster.engine.columns.fleet_index import grounds_of
from muster.engine.columns.node_rooms import Floor
from muster.engine.columns.queued_jobs import Roll
from muster.engine.columns.running_jobs import Runs
from muster.engine.columns.sight import Sight
from muster.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Queued jobs, running jobs and nodes, as state keeps them for the engine.

    A snapshot that is stored goes without them.
    """

    roll: Sight[Roll]
    runs: Sight[Runs]
    floor: Sight[Floor]

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def kept_roll(snapshot: Snapshot) -> Roll | None:
    """The queued jobs that state keeps, if they are still those of the snapshot."""
    columns = snapshot.columns
    return columns.roll.seen() if isinstance(columns, Columns) else None


def roll_of(snapshot: Snapshot) -> Roll:
    """The queued jobs of a snapshot."""
    if (kept := kept_roll(snapshot)) is not None:
        return kept
    roll = Roll(snapshot.policy.order.reads_time)
    for job in (*(run.job for run in snapshot.running), *(pending.job for pending in snapshot.pending)):
        roll.profiles.number(job.profile)
        roll.note(job)
    jobs = [job for state in snapshot.queues for lane in state.lanes for job in lane.jobs]
    for job in sorted(jobs, key=lambda job: (job.submit_ms, job.number, job.key)):
        roll.add(job)
    return roll


def runs_of(snapshot: Snapshot, roll: Roll) -> Runs:
    """The running jobs of a snapshot, with the numbers of this roll."""
    columns = snapshot.columns
    if isinstance(columns, Columns) and columns.roll.seen() is roll and (kept := columns.runs.seen()) is not None:
        return kept
    runs = Runs(roll)
    for run in snapshot.running:
        runs.add(run)
    return runs


def floor_of(snapshot: Snapshot) -> Floor:
    """What is on the nodes of a snapshot."""
    columns = snapshot.columns
    floor = columns.floor.seen() if isinstance(columns, Columns) else None
    return Floor.laid(grounds_of(snapshot.fleet), snapshot.nodes) if floor is None else floor
