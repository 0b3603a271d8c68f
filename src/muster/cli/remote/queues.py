"""`muster queues`, `queue set`, `queue remove`, `users`, `user set`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli.grouped import grouped
from muster.cli.remote.completing import complete_queues, complete_users
from muster.cli.remote.where import Site, Where

group = typer.Typer(name="queue", help="Make, change and remove queues.", no_args_is_help=True, rich_markup_mode=None)
user_group = typer.Typer(name="user", help="Set quotas of users.", no_args_is_help=True, rich_markup_mode=None)


@grouped
def queues(where: Where) -> None:
    """List queues: weight, jobs, share and what each holds.

    Example: muster queues -o wide

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_queues
    from muster.sdk import asking

    sys.exit(asked(where, asking.queues, show_queues))


@group.command("set")
@grouped
def set_(
    where: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue.", autocompletion=complete_queues)],
    weight: Annotated[float | None, typer.Option("--weight", help="Its weight among queues.  [new: 1]")] = None,
    quota: Annotated[
        list[str] | None,
        typer.Option("--quota", metavar="NAME=AMOUNT", help="The most it may hold, such as cpu=100; repeatable."),
    ] = None,
    no_quota: Annotated[bool, typer.Option("--no-quota", help="Take all quotas away first.")] = False,
    cordon: Annotated[
        bool | None, typer.Option("--cordon/--uncordon", help="Whether nothing of it starts any more.")
    ] = None,
    excess_budget: Annotated[
        str, typer.Option("--excess-budget", metavar="NUMBER", help="Usage × minutes above its share; off: no limit.")
    ] = "",
    default_time_limit: Annotated[
        str,
        typer.Option("--default-time-limit", metavar="TIME", help="For jobs that say none, such as 12h; off: none."),
    ] = "",
    default_expected_runtime: Annotated[
        str,
        typer.Option("--default-expected-runtime", metavar="TIME", help="For jobs that say no times; off: none."),
    ] = "",
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="NAME", help="Who operates its jobs; repeatable, all at once; off: nobody."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label for people; repeatable.")
    ] = None,
    no_labels: Annotated[bool, typer.Option("--no-labels", help="Take all labels away first.")] = False,
) -> None:
    """Make a queue, or change settings of one; what is not said stays as it is.

    Example: muster queue set vision --weight 2 --quota cpu=100 --quota gpu=8

    Example: muster queue set vision --default-time-limit 12h

    Example: muster queue set vision --cordon

    Example: muster queue set vision --owner ana --owner bo --label team=vision

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.changing import set_queue

    code = set_queue(
        where,
        name,
        weight=weight,
        quota=quota or [],
        keeps_quota=not no_quota,
        cordoned=cordon,
        excess_budget=excess_budget,
        default_time_limit=default_time_limit,
        default_expected_runtime=default_expected_runtime,
        owners=owner,
        labels=label or [],
        keeps_labels=not no_labels,
    )
    sys.exit(code)


@group.command("remove")
@grouped
def remove(
    site: Site,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The queue.", autocompletion=complete_queues)],
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel its jobs first.")] = False,
) -> None:
    """Make an end of a queue and of what is remembered of its use. One with jobs that are not over stays. For admins.

    Example: muster queue remove vision

    Example: muster queue remove vision --cancel

    Exit codes: 0 fine, 1 there is no such queue, it has jobs that are not over, or the server refused, 2 bad input, 3
    the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_nothing
    from muster.sdk import operating

    where = site.printing()
    sys.exit(asked(where, lambda: operating.remove_queue(name, cancel=cancel), show_nothing))


@grouped
def users(where: Where) -> None:
    """List users with a quota. For admins.

    Example: muster users

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.tables import show_users
    from muster.sdk import asking

    sys.exit(asked(where, asking.users, show_users))


@user_group.command("set")
@grouped
def set_user(
    where: Where,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The user.", autocompletion=complete_users)],
    quota: Annotated[
        list[str] | None,
        typer.Option("--quota", metavar="NAME=AMOUNT", help="The most that all jobs of theirs may hold; repeatable."),
    ] = None,
) -> None:
    """Say what all jobs of a user together may hold; without --quota, as much as their queues.

    Example: muster user set ana --quota cpu=64 --quota gpu=4

    Exit codes: 0 fine, 1 the server refused, 2 bad input, 3 the server cannot be reached, 130 interrupted.
    """
    from muster.cli.remote.asking import asked
    from muster.cli.remote.changing import pairs
    from muster.cli.remote.tables import show_users
    from muster.sdk import asking

    ask = lambda: asking.put_user(name, quota=pairs(quota or [], "quota", "cpu=100"))  # noqa: E731
    sys.exit(asked(where, ask, lambda user, wide: show_users([user], wide)))


def declare(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (queues, users):
        app.command()(command)
    for each in (group, user_group):
        app.add_typer(each)
