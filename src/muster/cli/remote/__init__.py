"""Commands that ask a server. `declare` adds them to `muster`.

options      what each of them can be told: which server, with which token, how to print
where        the same as a value
jobs, acting, live, queues, fleet, operations, policies, reports, tokens, contexts
             the commands, by subject; light, so that --help is instant
completing   names for the shell
asking       asks, prints, and turns what goes wrong into words and an exit code
tables       what people see
choosing, ruling, submitting, listing, changing, following, granting, keeping, accounting, watching
             what a command does beyond asking once
"""

from __future__ import annotations

import typer

from muster.cli.remote import acting, contexts, fleet, jobs, live, operations, policies, queues, reports, tokens


def declare(app: typer.Typer) -> None:
    """Add all of them."""
    for subject in (jobs, acting, live, queues, fleet, operations, policies, reports, tokens, contexts):
        subject.declare(app)
