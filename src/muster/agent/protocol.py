"""What an agent and the server say to each other (design.md 7).

The agent calls in with `Call` and the server answers, at once if there is something to do, else after a while. What
the server wants done is told again until the agent says it has it, and what ended the agent keeps until the server has
it for good, which a later answer may say: to hear what to start next, nobody waits for a disk. So both sides may say
everything twice, and either may die at any moment; with every hello all is said again. An attempt is known by job and
number, and whoever speaks of one that is over is told to stop it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

VERSION = "1.1"
"""Of the protocol: the first number must be the same on both sides, the second at most one apart.

1.1: leases say the grace and the terms of groups; the server asks for pieces of logs; calls have numbers, and answers
say up to which of them all is durable. Whoever speaks 1.0 neither says nor hears of these, and everything else is as it
was.
"""

GRACE_S = 30.0
"""Between TERM and KILL, for jobs that say nothing else."""

MOST_PIECE = 1 << 18  # bytes of a log that one answer may have

HONOURABLE = ("objects", "podTemplate")
"""What jobs may need that not every cluster can do: the keys of a job file that say so."""

MOST_MESSAGE = 4096  # letters of what is kept of a message

_WITHOUT_NULL = r"\A[^\x00]*\Z"  # no store and no process takes a null character
Text = Annotated[str, Meta(pattern=_WITHOUT_NULL)]
Word = Annotated[str, Meta(pattern=_WITHOUT_NULL, max_length=1024)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
ExitCode = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 32) - 1)]

Stage = Literal["accepted", "running", "ended"]
Result = Literal["", "succeeded", "failed", "stopped", "lost"]


class NodeReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as its agent sees it. `amounts` are Kubernetes quantities: {"cpu": "32", "memory": "128Gi", "gpu": 8}."""

    name: Word
    amounts: dict[Word, Word | int | float]
    labels: dict[Word, Word] = {}
    taints: list[dict[Word, Word]] = []
    topology: list[Word] = []
    cordoned: bool = False


class TaskReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task that ended by its own fault while the rest of its attempt goes on."""

    group: Word
    index: Count


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of an attempt since the agent last spoke of it. `revision`: which of its widths the agent has.

    `message`: in the end it is the job that said it. Of a long one, and of null characters, not all is kept.
    """

    job: Word
    attempt: Count
    stage: Stage
    revision: Count = 0
    result: Result = ""
    message: str = ""
    exit_code: ExitCode | None = None
    failed: list[TaskReport] = []


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a log, from the offset that was asked for. `is_over`: nothing more will come after it.

    `problem`: why there is none.
    """

    number: Count
    data: bytes = b""
    is_over: bool = False
    problem: Text = ""


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent calls in.

    `number`: of the call, one more each time; without one, the answer comes when all that was said is durable.
    `session`: made up anew whenever the agent starts. `got`: the number of the last answer that reached it, so that
    what an answer that was lost on its way said is said again. With `hello`, `reports` names every attempt it has,
    `nodes` is given, and whatever the server thinks it has beyond that is lost. `pieces` of logs that were asked for.
    `wait_s`: for how long the server may think. `honours`, with hello: which of HONOURABLE the cluster can do; an agent
    that says nothing of it does none of that.
    """

    session: Word
    number: Count = 0
    got: Count = 0
    version: Word = VERSION
    hello: bool = False
    nodes: list[NodeReport] | None = None
    reports: list[Report] = []
    pieces: list[Piece] = []
    wait_s: float = 0.0
    honours: list[Word] = []


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A task and the node it belongs on."""

    group: str
    index: int
    node: str
    devices: list[int] = []


class Terms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task of a group may use, and what its end means: with fewer than `min` tasks the attempt is over, and with
    all groups that decide it is done. `cpu` in millicores, `memory` in bytes, `gpu` in thousandths of each device."""

    min: int
    max: int
    decides: bool = True
    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    whole_node: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt to run, or (with a higher `revision`) the places it has now."""

    job: str
    attempt: int
    revision: int = 0
    name: str
    queue: str
    user: str = ""
    places: list[Place]
    launch: dict[str, Any] = {}
    time_limit_s: float | None = None
    grace_s: float = GRACE_S
    groups: dict[str, Terms] = {}


class Stop(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt to end, and why: cancelled, preempted, moved, time limit, or stale (the server knows no such one)."""

    job: str
    attempt: int
    reason: str


class Read(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a log that somebody wants to see: of a task ("" and -1: the first one), from an offset on."""

    number: int
    job: str
    attempt: int
    group: str = ""
    index: int = -1
    stream: Literal["out", "err"] = "out"
    offset: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the server wants done. `again`: it does not know this session, nor what was said; call in with hello.

    `heard`: the last call of this session of which all, as of those before it, is durable; -1: that goes for this one.
    """

    number: int = 0
    heard: int = -1
    leases: list[Lease] = []
    stops: list[Stop] = []
    reads: list[Read] = []
    again: bool = False


def understands(version: str) -> bool:
    """Whether a peer of that version can be spoken to: the same first number, the second at most one apart."""
    ours, theirs = VERSION.split("."), version.split(".")
    if len(theirs) != 2 or not all(part.isdigit() for part in theirs):
        return False
    return ours[0] == theirs[0] and abs(int(ours[1]) - int(theirs[1])) <= 1
