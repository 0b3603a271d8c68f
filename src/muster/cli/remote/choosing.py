"""Jobs that are chosen on the command line: one, several, a job set or a queue; and what is done to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from muster.cli.remote.asking import asked
from muster.cli.remote.changing import seconds_of
from muster.cli.remote.chosen import Chosen
from muster.cli.remote.tables import Column, print_table, show_one_job
from muster.cli.remote.where import Where
from muster.sdk import asking, operating, shapes
from muster.sdk.asking import Ask
from muster.sdk.operating import Act

_ONE: Mapping[Act, Callable[[str], Ask[shapes.Job]]] = {
    "hold": asking.hold,
    "release": asking.release,
    "preempt": asking.preempt,
}

BUDGETS = (
    Column("JOB", lambda budget: budget.job),
    Column("QUEUE", lambda budget: budget.queue),
    Column("GROUP", lambda budget: budget.group),
    Column("MIN AVAILABLE", lambda budget: str(budget.min_available), right=True),
)


def act(where: Where, what: Act, chosen: Chosen) -> int:
    """Do something to jobs; the exit code. Of one it says why it cannot be done; of many it does what can be."""
    one = _ONE.get(what)
    if one is not None and chosen.only is not None:
        ask, only = one, chosen.only
        return asked(where, lambda: ask(only), show_one_job)
    return asked(where, lambda: operating.act(what, chosen.jobs, chosen.selected()), _shown(what))


def change(
    where: Where,
    chosen: Chosen,
    *,
    priority: int | None,
    priority_class: str | None,
    level: str | None,
    freezing_window: str,
) -> int:
    """Change jobs; the exit code."""

    def changes() -> dict[str, object]:
        window = seconds_of(freezing_window, "--freezing-window")
        return operating.changes(priority=priority, priority_class=priority_class, level=level, freezing_window=window)

    only = chosen.only
    if only is not None:
        return asked(where, lambda: operating.change(only, changes()), show_one_job)
    return asked(where, lambda: operating.act("change", chosen.jobs, chosen.selected(), changes()), _shown("change"))


def show_budgets(budgets: list[shapes.Budget], wide: bool) -> None:
    """Disruption budgets."""
    none = "no budgets: `muster budget set JOB --min-available N` makes one"
    print_table(budgets, BUDGETS, wide=wide, none=none)


def _shown(what: Act) -> Callable[[list[str], bool], None]:
    def show(jobs: list[str], _wide: bool) -> None:
        """Their ids, one in a line, for the next program."""
        for name in jobs:
            print(name)
        if not jobs:
            print(f"nothing to {what}: {_NONE[what]}", file=sys.stderr)

    return show


_NONE: Mapping[Act, str] = {
    "cancel": "there are none that are not over already",
    "hold": "none of them waits that is not held back already",
    "release": "none of them is held back",
    "preempt": "none of them runs",
    "change": "there are none that are not over already",
}
