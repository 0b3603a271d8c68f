"""An answer in words: one paragraph, each sentence one thing, numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from muster.model.jobs import Profile, TaskGroup
from muster.model.policy import FairBy
from muster.model.reasons import Facts, Happening, Reason
from muster.model.resources import GPU, PODS, Resources, format_amount
from muster.state.why.answer import Leaves, Why
from muster.state.why.helping import Help
from muster.state.why.nodes import (
    CORDONED,
    FITS,
    NOT_LENT,
    OTHER_CLUSTER,
    OTHER_POOL,
    SILENT,
    WHOLE_NODE,
    Lack,
    is_unlimited,
)
from muster.state.why.standing import Share

_REAL_MS = 100_000_000_000  # simulations begin at 0 and last for less than three years
_MOST = 3  # names, or groups, that are told; the rest is counted
_MOST_KINDS = 5

_REFUSED = {
    OTHER_CLUSTER: "in clusters it may not go to",
    OTHER_POOL: "of pools it may not borrow from",
    NOT_LENT: "of pools that do not lend them while jobs of their own wait",
    SILENT: "in a cluster that does not answer",
    CORDONED: "cordoned",
    WHOLE_NODE: "in use, and it wants each for itself",
    "nodeSelector": "without the labels of its nodeSelector",
    "affinity": "not admitted by its affinity",
    "taint": "tainted with what it does not tolerate",
}


def paragraph(why: Why) -> str:
    """The whole answer."""
    return " ".join(_sentences(why))


def _sentences(why: Why) -> Iterator[str]:
    job = why.job
    waited = duration(why.now_ms - job.submit_ms)
    yield f"{job.id} ({asks(job.profile)}, queue {job.queue}) has waited for {waited} at {clock(why.now_ms)}."
    yield f"{why.waiting.reason.name}: {sentence(why.waiting.reason, why.waiting.facts)}."
    if why.first is not None:
        yield f"What holds {why.ahead.first} is {why.first.reason.name}: {sentence(why.first.reason, why.first.facts)}."
    if why.waiting.reason in (Reason.HELD, Reason.DEPENDENCY):
        yield again(why.waiting.reason)
        return
    yield from _nodes(why)
    yield _ahead(why)
    yield holds(why.share)
    yield _estimate(why)
    yield _helps(why)
    yield again(why.waiting.reason)


# --- nodes --------------------------------------------------------------------------------------


def _nodes(why: Why) -> Iterator[str]:
    groups = why.job.profile.groups
    for group in groups[:_MOST]:
        lacks = [lack for lack in why.lacks if lack.group == group.name]
        looked_at = sum(lack.count for lack in lacks)
        if not looked_at:
            yield "There are no nodes."
            return
        whose = f"a task of {group.name}" if len(groups) > 1 else "a task"
        short_of = [lack for lack in lacks if lack.dimension != FITS]
        told = [_lack(lack) for lack in short_of[:_MOST_KINDS]]
        if rest := sum(lack.count for lack in short_of[_MOST_KINDS:]):
            told.append(f"{rest} of other kinds lack something too")
        told += [_lack(lack) for lack in lacks if lack.dimension == FITS]
        yield f"Of {_count(looked_at, 'node')} looked at for {whose}: {'; '.join(told)}."


def _lack(lack: Lack) -> str:
    who = f"{lack.count} ({_amounts(lack.allocatable)}{', such as ' if lack.count > 1 else ': '}{lack.first})"
    if lack.dimension == FITS:
        return f"{who} {'has' if lack.count == 1 else 'have'} room now"
    if lack.dimension in _REFUSED:
        return f"{who} {'is' if lack.count == 1 else 'are'} {_REFUSED[lack.dimension]}"
    name = lack.dimension
    asked, most = format_amount(name, lack.asked), format_amount(name, lack.most)
    free = "free" if lack.count == 1 else "free at most"
    if lack.most >= lack.asked:  # enough in all, only not on devices that are free enough
        return f"{who} {'has' if lack.count == 1 else 'have'} {most} of {short(name)} free, but in parts of devices"
    return f"{who} {'lacks' if lack.count == 1 else 'lack'} {short(name)}: {most} {free}, {asked} asked"


# --- standing -----------------------------------------------------------------------------------


_DUE = {
    FairBy.SERVICE: "less served: {theirs} against {here} here, in hours of usage per weight",
    FairBy.FLOW: "flow per weight {theirs} against {here} here",
}


def _ahead(why: Why) -> str:
    ahead, told = why.ahead, []
    if ahead.count:
        told.append(f"{_count(ahead.count, 'job')} of its queue before it, first {ahead.first} ({ahead.because})")
    if why.reserved:
        told.append(f"room is kept for {_few(why.reserved)}")
    first = [rival for rival in why.rivals if rival.is_first]
    for rival in first:
        if rival.priority_class > why.job.priority_class:
            because = f"class {rival.priority_class} before {why.job.priority_class}"
        else:
            because = _DUE[why.share.by].format(theirs=f"{rival.due:.4g}", here=f"{why.share.due:.4g}")
        told.append(f"queue {rival.queue} with {rival.head} ({because})")
    return f"Ahead of it: {'; '.join(told)}." if told else "Nobody is ahead of it."


def holds(share: Share) -> str:
    """What a queue has of the fleet, and what is its due."""
    return (
        f"Queue {share.queue} holds {share.usage:.1%} of the fleet (its flow, the memory of that, {share.flow:.1%}); "
        f"its nominal share is {share.nominal:.1%} (weight {share.weight:g} of {share.divisor:g} in all), and by what "
        f"everyone asks for now it is entitled to {share.entitled:.1%}."
    )


# --- what comes ---------------------------------------------------------------------------------


def _estimate(why: Why) -> str:
    estimate = why.estimate
    if estimate is None:
        return "No start can be foretold."
    told = f"It is expected to start at {clock(estimate.start_ms)}"
    if why.leaving:
        told += f", {_leaves(why.leaving[0])}"
    if estimate.is_assumed:
        return f"{told}; that rests on run times nobody stated, taken as long again as so far, at least 10 minutes."
    return f"{told}, if everyone runs as long as stated and nothing new comes."


def _leaves(last: Leaves) -> str:
    if last.how == "lifetime":
        return f"when {last.job} has outlived its lifetime ({clock(last.at_ms)}) and may be preempted"
    how = "as stated" if last.how == "stated" else "a guess"
    return f"when {last.job} has ended ({clock(last.at_ms)}, {how})"


def _helps(why: Why) -> str:
    if not why.helps:
        return "No small change that was tried would start it now."
    return f"It would start at once with {_listed([_help(one) for one in why.helps], 'or')}."


def _help(one: Help) -> str:
    match one.kind:
        case "nodes":
            return f"{_count(one.count, 'more node')} like {one.like}"
        case "smaller":
            return f"tasks that ask for no more than {format_amount(one.name, one.amount)} {short(one.name)}"
        case "runtime":
            return f"a stated run time of at most {duration(one.amount)}"
        case "lifetime":
            return "a lifetime of 0 (it could then be preempted for fairness at any time)"
        case "priority":
            return f"a priority of {one.amount}"
        case "uncordon":
            return "its queue uncordoned"
    return f"no {'excess budget limit' if one.kind == 'budget' else one.kind} on its queue"


def again(reason: Reason) -> str:
    """When who waits for it is looked at again."""
    until = reason.until
    others = sorted(happening.value for happening in until if happening is not Happening.NEXT_TURN)
    moments = ["in the next turn"] if Happening.NEXT_TURN in until else []
    if others:
        moments.append(f"when {_listed(others, 'or')}")
    return f"It is looked at again {' and '.join(moments)}."


# --- words --------------------------------------------------------------------------------------


def short(name: str) -> str:
    """A resource as people call it."""
    return "gpu" if name == GPU else name


def clock(moment_ms: int) -> str:
    """A moment as the tables show it: 1d 02:03:04.500, or of a real clock, from 1970 on: 2026-11-15 22:04:07Z."""
    if moment_ms >= _REAL_MS:
        return f"{datetime.fromtimestamp(moment_ms // 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    seconds, rest_ms = divmod(moment_ms, 1000)
    days, left = divmod(seconds, 86_400)
    text = f"{left // 3600:02}:{left % 3600 // 60:02}:{left % 60:02}"
    return (f"{days}d " if days else "") + text + (f".{rest_ms:03}" if rest_ms else "")


def duration(span_ms: int) -> str:
    """`1d 2h`, `2h 5m`, `90s`: no more than two units."""
    for unit, size, below, smaller in (("d", 86_400_000, "h", 3_600_000), ("h", 3_600_000, "m", 60_000)):
        if span_ms >= size:
            whole, rest = divmod(span_ms, size)
            return f"{whole}{unit}" + (f" {rest // smaller}{below}" if rest // smaller else "")
    if span_ms >= 120_000:
        minutes, rest = divmod(span_ms, 60_000)
        return f"{minutes}m" + (f" {rest // 1000}s" if rest // 1000 else "")
    return f"{span_ms / 1000:g}s"


def sentence(reason: Reason, facts: Facts) -> str:
    """A reason, with moments of a real clock as people read them."""
    start = facts.get("start")
    if isinstance(start, int | float) and start * 1000 >= _REAL_MS:
        facts = {**facts, "start": clock(round(start * 1000))}
    return reason.explain(facts)


def asks(profile: Profile) -> str:
    """What a job asks for: `2 tasks of 4 cpu 8Gi memory`."""
    return _listed([_group(group) for group in profile.groups])


def _group(group: TaskGroup) -> str:
    many = _count(group.min, "task") if group.min == group.max else f"{group.min} to {group.max} tasks"
    whole = ", a node each" if group.request.whole_node else ""
    return f"{many} of {_amounts(group.request.resources) or 'nothing'}{whole}"


def _amounts(resources: Resources) -> str:
    kept = [(name, amount) for name, amount in resources.items() if name != PODS and not is_unlimited(name, amount)]
    return " ".join(f"{format_amount(name, amount)} {short(name)}" for name, amount in kept)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _listed(parts: list[str], last: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"
