"""What the command line says of the policy, and how it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.cli.remote.asking import asked
from muster.cli.remote.tables import Column, age, amounts, print_facts, print_table
from muster.cli.remote.where import Where
from muster.documents import document
from muster.documents.problems import DocumentError, Problems
from muster.documents.values import List, Map, plain
from muster.model.errors import InvalidValue
from muster.sdk import operating
from muster.sdk.asking import Ask
from muster.sdk.shapes import Policy

DEFAULT = "default"

_WINDOWS = "a list of windows such as {pool: a, days: mon-fri, from: '08:00', to: '20:00', withhold: {cpu: 64}}"

CALENDAR = (
    Column("CLUSTER", lambda window: window.get("cluster") or ""),
    Column("POOL", lambda window: window.get("pool") or ""),
    Column("DAYS", lambda window: window["days"]),
    Column("FROM", lambda window: window["from"]),
    Column("TO", lambda window: window["to"]),
    Column("UTC", lambda window: window.get("utcOffset", "+00:00")),
    Column("WITHHOLD", lambda window: amounts(window["withhold"])),
    Column("SHRINK AHEAD", lambda window: age(window.get("shrinkAhead", 0)), right=True),
)


def set_policy(where: Where, said: Mapping[str, str], calendar: str) -> int:
    """Set what is said (`default` takes it back); the exit code."""

    def ask() -> Ask[Policy]:
        given: dict[str, Any] = {key: None if text == DEFAULT else text for key, text in said.items() if text}
        if calendar:
            given["calendar"] = None if calendar == DEFAULT else _windows(calendar)
        if not given:
            raise InvalidValue("", "at least one of the options", "policy")
        return operating.change_policy(**given)

    return asked(where, ask, show_policy)


def _windows(path: str) -> list[Any]:
    """The windows in a file: a list, or one under the only key `calendar`."""
    problems = Problems(path)
    path = "/dev/stdin" if path == "-" else path
    try:
        value = document.read(document.read_file(path, problems), problems, _WINDOWS)
        if problems:
            raise problems.error()
    except DocumentError as err:
        raise InvalidValue(path, str(err), "--calendar") from None
    if isinstance(value, Map) and list(value.values) == ["calendar"]:
        value = value.values["calendar"]
    if not isinstance(value, List):
        raise InvalidValue(path, _WINDOWS, "--calendar")
    windows = plain(value)
    assert isinstance(windows, list)
    return windows


def show_policy(policy: Policy, wide: bool) -> None:
    """The policy, and which of it was set."""

    def told(key: str, text: str) -> str:
        return f"{text} (set)" if key in policy.set else text

    share = policy.over_share
    print_facts(
        [
            ("ageing after", told("agingAfter", age(policy.aging_after))),
            ("over share", told("overShare", share if isinstance(share, str) else f"{share:g}")),
            ("cores per GPU", told("coresPerGpu", f"{policy.cores_per_gpu:g}")),
            ("calendar", told("calendar", f"{len(policy.calendar)} windows")),
        ]
    )
    if policy.calendar:
        print()
        print_table(policy.calendar, CALENDAR, wide=wide, none="")
