"""Disruption budgets of a scenario: how many tasks of a job's group its owner wants to keep."""

from __future__ import annotations

from muster.documents.fields import Fields
from muster.documents.jobs.known import listed
from muster.documents.scalars import INT32
from muster.model.budgets import Budget
from muster.sim.scenario.jobs import JobEntry, Jobs


def read_budgets(top: Fields, jobs: Jobs) -> tuple[Budget, ...]:
    """The key `budgets`; jobs must have been read."""
    budgets: dict[tuple[str, str], Budget] = {}
    lines: dict[tuple[str, str], int] = {}
    for fields in top.entries("budgets", "budget"):
        job, group = fields.required_name("job"), fields.name("group")
        least = fields.integer("minAvailable", 1, 0, INT32)
        fields.close()
        if not fields.has("minAvailable"):
            fields.missing("minAvailable", f"a whole number from 0 to {INT32}")
        entry = None if job is None else _entry_of(fields, job, jobs)
        group = None if entry is None else _group_of(fields, group, entry)
        if job is None or group is None:
            continue
        if (job, group) in lines:
            fields.refuse("job", f"a budget for {group} of that job is on line {lines[job, group]}: one is enough")
        lines.setdefault((job, group), fields.line)
        budgets[job, group] = Budget(job=job, group=group, min_available=least)
    return tuple(budgets[key] for key in sorted(budgets))


def _entry_of(fields: Fields, job: str, jobs: Jobs) -> JobEntry | None:
    """The entry that the job is one of."""
    one = jobs.roster.one(job)
    if one is None:
        fields.refuse("job", f"{listed('a job', jobs.entries)}; where it has a count one of its jobs, such as {job}-0")
    return None if one is None else jobs.entries.get(one.name)


def _group_of(fields: Fields, group: str | None, entry: JobEntry) -> str | None:
    """The group it is for; a job of one group need not name it."""
    names = [each.name for each in entry.profile.groups]
    if group is None and not fields.has("group"):
        if len(names) == 1:
            return names[0]
        fields.missing("group", f"a group of that job: {', '.join(sorted(names))}")
    elif group is not None and group not in names:
        fields.refuse("group", f"a group of that job: {', '.join(sorted(names))}")
        return None
    return group
