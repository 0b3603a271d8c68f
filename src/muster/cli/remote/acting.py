"""`muster cancel`, `reprioritise`, `hold`, `release`, `preempt`, `budgets`, `budget set`, `budget remove`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.chosen import Chosen
from muster.cli.remote.completing import complete_jobs
from muster.cli.remote.where import Site, Where

budget_group = typer.Typer(
    name="budget", help="Disruption budgets of jobs.", no_args_is_help=True, rich_markup_mode=None
)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.", autocompletion=complete_jobs)]
Group = Annotated[str, typer.Option("--group", help="The group; a job of one group need not name it.")]


@grouped
def cancel(chosen: Chosen, where: Where) -> None:
    """Cancel jobs, whatever they are doing. Prints those that were not over already.

    Example: muster cancel train-bprwmkjnxht sweep-3-bprwmkjnxhv

    Example: muster cancel --job-set sweep --state queued --state pending

    Example: muster cancel --queue vision --all

    Exit codes: 0 fine, 1 there is no such job or the server refused, 2 bad input, 3 the server cannot be reached, 130
    interrupted.
    """
    from muster.cli.remote.choosing import act

    sys.exit(act(where, "cancel", chosen))


@grouped
def reprioritise(
    chosen: Chosen,
    where: Where,
    priority: Annotated[int | None, typer.Option("--priority", help="Its place in the queue; more is earlier.")] = None,
    priority_class: Annotated[str | None, typer.Option("--class", help="Its priority class.")] = None,
    level: Annotated[str | None, typer.Option("--level", help="How an elastic job is served beside others.")] = None,
    freezing_window: Annotated[
        str, typer.Option("--freezing-window", metavar="TIME", help="How long its width is left alone after a change.")
    ] = "",
) -> None:
    """Change jobs, also while they run: priority inside their queue, priority class, level, freezing window.

    Prints the job; of several, of a job set or a queue the ids of those that were changed.

    Example: muster reprioritise train-bprwmkjnxht --priority 10

    Example: muster reprioritise train-bprwmkjnxht --level Production --freezing-window 10m

    Example: muster reprioritise --job-set sweep --queue vision --state queued --priority 5

    Exit codes: 0 fine, 1 there is no such job, it is over, or the server refused, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.choosing import change

    code = change(
        where,
        chosen,
        priority=priority,
        priority_class=priority_class,
        level=level,
        freezing_window=freezing_window,
    )
    sys.exit(code)


@grouped
def hold(chosen: Chosen, where: Where) -> None:
    """Hold queued jobs back until they are released; those that run go on.

    Prints the job; of several, of a job set or a queue the ids of those that are held back now.

    Example: muster hold train-bprwmkjnxht

    Example: muster hold --queue vision --all

    Exit codes: 0 fine, 1 there is no such job, it does not wait, or the server refused, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.choosing import act

    sys.exit(act(where, "hold", chosen))


@grouped
def release(chosen: Chosen, where: Where) -> None:
    """Let jobs go that were held back.

    Prints the job; of several, of a job set or a queue the ids of those that were let go.

    Example: muster release train-bprwmkjnxht

    Example: muster release --job-set sweep

    Exit codes: 0 fine, 1 there is no such job, it does not wait, or the server refused, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.choosing import act

    sys.exit(act(where, "release", chosen))


@grouped
def preempt(chosen: Chosen, where: Where) -> None:
    """Stop running jobs and put them back into their queues; that costs them no retry.

    For admins and owners of the queue. Prints the job; of several, of a job set or a queue the ids of those that were
    stopped.

    Example: muster preempt train-bprwmkjnxht

    Example: muster preempt --queue vision --all

    Exit codes: 0 fine, 1 there is no such job, it does not run, or the server refused, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.choosing import act

    sys.exit(act(where, "preempt", chosen))


@grouped
def budgets(where: Where) -> None:
    """List disruption budgets: how many tasks of a job's group are to stay while it runs.

    Example: muster budgets

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.choosing import show_budgets
    from muster.sdk import operating

    sys.exit(asked(where, operating.budgets, show_budgets))


@budget_group.command("set")
@grouped
def set_budget(
    where: Where,
    job_id: JobId,
    min_available: Annotated[int, typer.Option("--min-available", min=0, help="So many tasks are to stay.")],
    group: Group = "",
) -> None:
    """Say how many tasks of a job's group are to stay: victims are looked for elsewhere first.

    Example: muster budget set train-bprwmkjnxht --group worker --min-available 3

    Exit codes: 0 fine, 1 there is no such job, it is over, or the server refused, 2 bad input, 3 the server
    cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.choosing import show_budgets
    from muster.sdk import operating

    ask = lambda: operating.put_budget(job_id, min_available=min_available, group=group)  # noqa: E731
    sys.exit(asked(where, ask, lambda budget, wide: show_budgets([budget], wide)))


@budget_group.command("remove")
@grouped
def remove_budget(site: Site, job_id: JobId, group: Group = "") -> None:
    """Take a disruption budget away.

    Example: muster budget remove train-bprwmkjnxht --group worker

    Exit codes: 0 fine, 1 there is no such job or budget, or the server refused, 2 bad input, 3 the server cannot be
    reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nothing
    from muster.sdk import operating

    where = site.printing()
    sys.exit(asked(where, lambda: operating.remove_budget(job_id, group=group), show_nothing))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (cancel, reprioritise, hold, release, preempt, budgets):
        app.command()(command)
    app.add_typer(budget_group)
