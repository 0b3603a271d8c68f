"""What the report says about its own numbers, and each reason in a few words."""

from __future__ import annotations

from muster.model.reasons import Reason

DEFINITIONS = {
    "Usage": (
        "What a job holds, weighed: cores, memory and GPUs by the weights of the policy. Shares are parts of the usage "
        "of the whole fleet."
    ),
    "Goodput": (
        "Use without the time of attempts that came to nothing: preempted, lost, moved or failed, after which the job "
        "began again, or of a job that failed for good or was cancelled. An attempt that still runs counts, and so do "
        "tasks that an elastic job gave up."
    ),
    "Entitled": (
        "The fleet divided by weight among the queues that want some of it, none given more than its running and "
        "waiting jobs ask for (weighted max-min). It depends on what there is and what is asked, not on what the "
        "scheduler did."
    ),
    "Shortfall": "∫ max(0, entitled − held) ÷ ∫ entitled over time, of a queue or of all together.",
    "Worst hour": (
        "Of all hours that begin every five minutes and throughout which the queue had work waiting that could ever "
        "start: the largest shortfall."
    ),
    "Jain's index": (
        "(Σ x)² ÷ (n Σ x²) over the queues entitled to something, x = held ÷ entitled, averaged over the time in which "
        "there were at least two such queues."
    ),
    "Wait": "From submission to the first start; jobs that never started are not in the distribution.",
    "Bounded slowdown": (
        "max(1, time from submission to end ÷ max(run time of the last attempt, 10 s)), of jobs that succeeded."
    ),
    "Idle while jobs waited": (
        "The smaller of what was idle and what waiting jobs that could ever start needed, as a part of all there was. "
        "Part of it is kept for gangs, part is closed by limits, part is in pieces too small."
    ),
    "Idle where no waiting task fits": (
        "Free amounts on nodes on which not a single task of any waiting job could be put: fragments. Looked at some "
        "hundreds of times over the simulation; 0 while nobody waits."
    ),
}

REASONS = {
    Reason.NEVER_FITS: "fits no cluster, even an empty one",
    Reason.NO_NODES: "its cluster or pool had no nodes",
    Reason.NO_ROOM: "no node had room",
    Reason.GANG_DOES_NOT_FIT: "not all tasks of the gang found room together",
    Reason.WOULD_DELAY: "there was room, but it was kept for a job that came first",
    Reason.RESERVED: "first in line, with room reserved from a known time on",
    Reason.OVER_SHARE: "its queue held as much without lifetimes as it may",
    Reason.BUDGET: "its queue's budget for holding more than its share was used up",
    Reason.QUOTA: "its queue was at its quota",
    Reason.USER_QUOTA: "its user was at their quota",
    Reason.RATE_LIMIT: "as many had started in that turn as may",
    Reason.QUEUE_CORDONED: "its queue was cordoned",
    Reason.JUST_EVICTED: "it had given way at that moment",
    Reason.DEPENDENCY: "it comes after other jobs",
    Reason.HELD: "someone holds it back",
    Reason.BEHIND: "others of its queue came first",
}
