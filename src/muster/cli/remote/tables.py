"""What people see: answers as tables, times as ages, amounts in short."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from muster.model.retries import COUNTED, FAILED
from muster.sdk import shapes

WIDTH = 100  # of prose

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_YAML_BREAKS = frozenset("\x85\u2028\u2029")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"
_COLOURS = {"running": "\x1b[32m", "failed": "\x1b[31m", "pending": "\x1b[33m", "cancelled": "\x1b[2m"}


class Column(NamedTuple):
    """One column: its head, what is in it, whether only wide tables have it, whether it is a number."""

    head: str
    cell: Callable[[Any], str]
    wide: bool = False
    right: bool = False

    def fitted(self, text: str, width: int) -> str:
        """The text at the side where it belongs."""
        return text.rjust(width) if self.right else text.ljust(width)


def age(seconds: float) -> str:
    """A span of time in two letters or three: 12s, 3m, 5h, 9d."""
    whole = max(int(seconds), 0)
    size, unit = next(((size, unit) for size, unit in _UNITS if whole >= size), (1, "s"))
    return f"{whole // size}{unit}"


def _given(number: float | None, told: Callable[[float], str]) -> str:
    return "" if number is None else told(number)


def ago(moment: float | None) -> str:
    """How long ago something was."""
    return "" if moment is None else age(time.time() - moment)


def clock(moment: float) -> str:
    """A moment in the time of whoever reads it."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def amounts(given: Mapping[str, Any]) -> str:
    """Amounts on one line: cpu=4 memory=8Gi."""
    return " ".join(f"{name}={amount}" for name, amount in given.items())


def clean(text: str) -> str:
    """Text from elsewhere as a terminal may show it: nothing in it moves the cursor or changes colours."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def as_lines(rows: Sequence[Any], columns: Sequence[Column], *, coloured: bool = False) -> list[str]:
    """A table, its head first: each column as wide as what is in it."""
    cells = [[column.head for column in columns], *([clean(column.cell(row)) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines: list[str] = []
    for line in cells:
        fitted = [column.fitted(text, width) for column, text, width in zip(columns, line, widths, strict=True)]
        if coloured:
            fitted = [_coloured(text) for text in fitted] if lines else [f"{_BOLD}{text}{_PLAIN}" for text in fitted]
        lines.append("  ".join(fitted).rstrip())
    return lines


def _coloured(text: str) -> str:
    colour = _COLOURS.get(text.rstrip())
    return f"{colour}{text}{_PLAIN}" if colour else text


def is_looked_at() -> bool:
    """Whether somebody reads this on a terminal."""
    return sys.stdout.isatty()


def print_table(rows: Sequence[Any], columns: Sequence[Column], *, wide: bool, none: str) -> None:
    """Print rows; `none` is what there is to say of no rows."""
    if not rows:
        print(none)
        return
    shown = [column for column in columns if wide or not column.wide]
    for line in as_lines(rows, shown, coloured=is_looked_at() and "NO_COLOR" not in os.environ):
        print(line)


def as_yaml(value: Any) -> str:
    """Something as YAML, which reads as the same again; text of several lines has its lines."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes scripts as people do."""

    def text_of(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, text_of)
    text: str = yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True)
    if not _YAML_BREAKS.isdisjoint(text):  # PyYAML writes them as they are, and reads them as spaces
        text = yaml.safe_dump(value, sort_keys=False)
    return text


def print_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print what is known about one thing, without what is not."""
    told = [(name, value) for name, value in pairs if value]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        first, *rest = map(clean, value.splitlines())
        print(f"{name:<{width}}  {first}")
        for line in rest:
            print(f"{'':<{width}}  {line}")


def print_prose(text: str) -> None:
    """Print paragraphs."""
    parts = (" ".join(map(clean, part.splitlines())) for part in text.split("\n\n"))
    print("\n\n".join(textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in parts))


def show_nothing(_answer: None, _wide: bool) -> None:
    """It was done, and that is all."""


# --- jobs ----------------------------------------------------------------------------------------


def _ran(job: shapes.Job) -> str:
    """For how long its last attempt has run, or did."""
    if job.started is None:
        return ""
    return age((time.time() if job.ended is None else job.ended) - job.started)


JOBS = (
    Column("JOB", lambda job: job.id),
    Column("QUEUE", lambda job: job.queue),
    Column("STATE", lambda job: job.state),
    Column("AGE", lambda job: ago(job.submitted), right=True),
    Column("RAN", _ran, right=True),
    Column("CLUSTER", lambda job: job.cluster),
    Column("USER", lambda job: job.user, wide=True),
    Column("JOB SET", lambda job: job.job_set, wide=True),
    Column("PRIORITY", lambda job: str(job.priority), wide=True, right=True),
    Column("ATTEMPT", lambda job: str(job.attempt), wide=True, right=True),
    Column("FAILURES", lambda job: str(job.failures), wide=True, right=True),
    Column("LOSSES", lambda job: str(job.losses), wide=True, right=True),
    Column("PREEMPTIONS", lambda job: str(job.preemptions), wide=True, right=True),
    Column("REASON", lambda job: job.reason),
)


def show_jobs(page: shapes.JobPage, wide: bool) -> None:
    """Jobs, and that there are more."""
    print_table(page.jobs, JOBS, wide=wide, none="no such jobs")
    if page.next is not None and is_looked_at():
        print(f"the latest {len(page.jobs)}; --limit shows more")


def show_one_job(job: shapes.Job, wide: bool) -> None:
    """One job, as a line of the list."""
    print_table([job], JOBS, wide=wide, none="")


def show_job(job: shapes.JobDetail, _wide: bool) -> None:
    """One job."""
    print_facts(
        [
            ("job", job.id),
            ("state", job.state),
            ("reason", job.reason),
            ("queue", job.queue),
            ("job set", job.job_set),
            ("user", job.user),
            ("priority", _priority(job)),
            ("submitted", _moment(job.submitted)),
            ("started", _moment(job.started)),
            ("ended", _moment(job.ended)),
            ("cluster", job.cluster),
            ("attempt", str(job.attempt or "")),
            *((count, _of_allowed(job, cause, count)) for cause, count in COUNTED.items()),
            ("attempts", "\n".join(map(_lease, job.leases))),
            ("spec", as_yaml(job.spec)),
        ]
    )
    if job.state in ("queued", "pending"):
        print(f"\nmuster why {job.id}   says why it waits")


def _of_allowed(job: shapes.JobDetail, cause: str, count: str) -> str:
    """How many attempts ended so, and how many are forgiven where someone said that."""
    times, allowed = getattr(job, count), job.spec.get("retries", 0)
    if not isinstance(allowed, dict):
        allowed = {FAILED: allowed}
    if not times:
        return ""
    return f"{times} (retries.{cause} allows {allowed[cause]})" if allowed.get(cause) is not None else str(times)


def _priority(job: shapes.Job) -> str:
    return f"{job.priority} (class {job.priority_class})" if job.priority or job.priority_class else ""


def _moment(moment: float | None) -> str:
    return "" if moment is None else f"{clock(moment)} ({ago(moment)} ago)"


def _lease(lease: shapes.Lease) -> str:
    said = lease.reason or lease.result.get("message") or ""
    why = f" ({said})" if said else ""
    return f"{lease.attempt}: {lease.state}{why} on {lease.cluster}: {', '.join(lease.nodes)}"


def show_why(why: shapes.Why, wide: bool) -> None:
    """A paragraph, and with all columns the facts behind it."""
    print_prose(why.text)
    if wide:
        print()
        facts = [(name, str(value)) for name, value in why.facts.items()]
        print_facts([("reason", why.reason or ""), *facts, ("starts", _at(why.estimate))])


def _at(moment: float | None) -> str:
    return "" if moment is None else f"about {clock(moment)}"


# --- queues and machines -------------------------------------------------------------------------


def _count(state: str, *, wide: bool = False) -> Column:
    return Column(state.upper(), lambda queue: str(queue.jobs.get(state, 0)), wide=wide, right=True)


QUEUES = (
    Column("QUEUE", lambda queue: queue.name),
    Column("WEIGHT", lambda queue: f"{queue.weight:g}", right=True),
    Column("CORDONED", lambda queue: "yes" if queue.cordoned else ""),
    *(_count(state) for state in ("queued", "pending", "running")),
    *(_count(state, wide=True) for state in ("succeeded", "failed", "cancelled")),
    Column("SHARE", lambda queue: f"{queue.share:.1%}", right=True),
    Column("ENTITLED", lambda queue: f"{queue.entitled:.1%}", wide=True, right=True),
    Column("HOLDS", lambda queue: amounts(queue.holds)),
    Column("QUOTA", lambda queue: amounts(queue.quota)),
    Column("BUDGET", lambda queue: _given(queue.excess_budget, lambda it: f"{it:g}"), wide=True, right=True),
    Column("TIME LIMIT", lambda queue: _given(queue.default_time_limit, age), wide=True, right=True),
    Column("EXPECTED", lambda queue: _given(queue.default_expected_runtime, age), wide=True, right=True),
    Column("OWNERS", lambda queue: " ".join(queue.owners), wide=True),
    Column("LABELS", lambda queue: amounts(queue.labels), wide=True),
)

CLUSTERS = (
    Column("CLUSTER", lambda cluster: cluster.name),
    Column("NODES", lambda cluster: str(cluster.nodes), right=True),
    Column("PREFERENCE", lambda cluster: str(cluster.preference), right=True),
    Column("AGENT", lambda cluster: "silent" if cluster.silent else "here"),
    Column("HEARD", lambda cluster: "" if cluster.heard is None else f"{ago(cluster.heard)} ago", right=True),
    Column("HONOURS", lambda cluster: " ".join(cluster.honours), wide=True),
)

USERS = (
    Column("USER", lambda user: user.name),
    Column("QUOTA", lambda user: amounts(user.quota)),
)

POOLS = (
    Column("POOL", lambda pool: pool.name),
    Column("NODES", lambda pool: str(pool.nodes), right=True),
    Column("SELECTOR", lambda pool: amounts(pool.node_selector)),
    Column("SHARES", lambda pool: "no" if pool.disable_sharing else "yes"),
    Column("BORROWS", lambda pool: "no" if pool.disable_borrowing else " ".join(pool.borrowing_pools) or "yes"),
    Column("PREEMPTS", lambda pool: "no" if pool.disable_preemption else "yes"),
    Column("KEEPS", lambda pool: amounts(pool.keep)),
)


def drained(node: shapes.Node) -> str:
    """How far a node is with being emptied; nothing if nobody wants it to be."""
    if node.drain is None:
        return ""
    return "drained" if node.is_drained else f"draining, {len({*node.jobs, *node.drain.leaving})} left"


NODES = (
    Column("NODE", lambda node: node.name),
    Column("CLUSTER", lambda node: node.cluster),
    Column("CORDONED", lambda node: drained(node) or ("yes" if node.cordoned else "")),
    Column("JOBS", lambda node: str(len(node.jobs)), right=True),
    Column("USED", lambda node: amounts(node.used)),
    Column("OF", lambda node: amounts(node.allocatable)),
    Column("LABELS", lambda node: amounts(node.labels), wide=True),
)


def show_queues(queues: list[shapes.Queue], wide: bool) -> None:
    """Queues."""
    print_table(queues, QUEUES, wide=wide, none="no queues yet: `muster queue set NAME` makes one")


def show_users(users: list[shapes.User], wide: bool) -> None:
    """Users."""
    print_table(users, USERS, wide=wide, none="no user has a quota: `muster user set NAME --quota cpu=64` sets one")


def show_pools(pools: list[shapes.Pool], wide: bool) -> None:
    """Pools."""
    print_table(pools, POOLS, wide=wide, none="no pools: `muster pool set NAME --node-selector LABEL=VALUE` makes one")


def show_clusters(clusters: list[shapes.Cluster], wide: bool) -> None:
    """Clusters."""
    print_table(clusters, CLUSTERS, wide=wide, none="no clusters yet: `muster agent --cluster NAME` brings one")


def show_nodes(nodes: list[shapes.Node], wide: bool) -> None:
    """Nodes."""
    print_table(nodes, NODES, wide=wide, none="no nodes: `muster agent --cluster NAME` brings some")


def show_node(node: shapes.Node, wide: bool) -> None:
    """One node."""
    show_nodes([node], wide)


# --- for operators -------------------------------------------------------------------------------

TURNS = (
    Column("TURN", lambda turn: str(turn.number), right=True),
    Column("AT", lambda turn: clock(turn.at)),
    Column("TOOK", lambda turn: f"{turn.took * 1000:.0f} ms", right=True),
    Column("DECIDED", lambda turn: amounts(turn.decided.get("actions", {})) or "nothing"),
    Column("STARTED", lambda turn: amounts(turn.decided.get("started", {}))),
    Column("WAITING", lambda turn: amounts(turn.waiting)),
    Column("NEWS", lambda turn: str(turn.decided.get("news", "")), wide=True, right=True),
)

REASONS = (
    Column("QUEUE", lambda wait: wait.queue),
    Column("EACH ASKS FOR", lambda wait: wait.asks),
    Column("REASON", lambda wait: wait.reason),
    Column("JOBS", lambda wait: str(wait.jobs), right=True),
    Column("SUCH AS", lambda wait: wait.job),
    Column("BECAUSE", lambda wait: wait.text),
)

TOKENS = (
    Column("TOKEN", lambda token: token.id),
    Column("NAME", lambda token: token.name),
    Column("MAY", lambda token: rights(token)),
)

AUDIT = (
    Column("AT", lambda line: clock(line["t"])),
    Column("WHO", lambda line: str(line["who"])),
    Column("WHAT", lambda line: str(line["what"])),
    Column("ABOUT", lambda line: amounts({k: v for k, v in line.items() if k not in ("t", "who", "what")})),
)


def rights(token: shapes.Token) -> str:
    """What whoever has the token may do."""
    if token.admin:
        return "everything"
    told = [f"{', '.join(given)} in {'all queues' if queue == '*' else queue}" for queue, given in token.queues.items()]
    return "; ".join([*told, *([f"speak for cluster {token.cluster}"] if token.cluster else [])]) or "nothing"


def show_turns(turns: list[shapes.Turn], wide: bool) -> None:
    """Turns."""
    print_table(turns, TURNS, wide=wide, none="no turn has decided anything yet")


def show_turn(turn: shapes.TurnDetail, wide: bool) -> None:
    """One turn, and a table of those who waited."""
    is_older = turn.reasons_of not in (None, turn.number)
    print_facts(
        [
            ("turn", str(turn.number)),
            ("at", clock(turn.at)),
            ("took", f"{turn.took * 1000:.0f} ms"),
            ("decided", amounts(turn.decided.get("actions", {})) or "nothing"),
            ("started", amounts(turn.decided.get("started", {}))),
            ("reasons", f"as turn {turn.reasons_of} wrote them down" if is_older else ""),
        ]
    )
    print()
    print_table(turn.reasons, REASONS, wide=wide, none="nobody waited")


def show_status(status: shapes.Status, _wide: bool) -> None:
    """How the server is."""
    store = "cannot be reached: turns wait for it" if status.store_down else "fine"
    print_facts(
        [
            ("version", status.version),
            ("turns", str(status.turns)),
            ("store", store),
            ("preemption", status.preemption),
            ("paused", "yes: nothing is decided until `muster resume`" if status.paused else ""),
        ]
    )


def show_tokens(tokens: list[shapes.Token], wide: bool) -> None:
    """Tokens."""
    print_table(tokens, TOKENS, wide=wide, none="no tokens")


def show_audit(lines: list[dict[str, Any]], wide: bool) -> None:
    """Who changed what."""
    print_table(lines, AUDIT, wide=wide, none="nobody has changed anything yet")
