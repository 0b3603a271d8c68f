"""How fast worlds fill where jobs are choosy: selectors, GPUs, closeness, and many distinct profiles.

Each is a benchmark of its own, since making and checking one of these worlds takes minutes.
"""

from __future__ import annotations

from bench.bare import bare_fill
from bench.checking import hold_to_rules
from bench.measuring import MEASURE, table
from bench.turns import FILL_HEADINGS, distinct_profiles, fill_bars, fill_row, filled, made_world, warm_up
from bench.worlds import PLAIN, Kind, Size, scaled
from muster.engine.planning import effort

BAR = 0.2  # of the bare kernel's speed


def selectors() -> str:
    """A tenth of the profiles ask for a label."""
    words = "One profile in ten asks for a value of one of 20 label keys that every node has."
    return _report("selectors", words, Size(), Kind(selectors=True))


def gpus() -> str:
    """Three GPU models, and parts of GPUs."""
    words = (
        "One node in four has 8 GPUs of one of three models; one profile in five asks for GPUs, or for parts of one."
    )
    return _report("GPUs", words, Size(), Kind(gpus=True))


def topology() -> str:
    """Gangs whose tasks must or should be close."""
    words = "Leaves of 16 nodes under spines of 512; gangs prefer to be close, half of them must be within 4 hops."
    return _report("topology", words, Size(), Kind(topology=True))


def profiles() -> str:
    """5,000 distinct profiles."""
    return _report("5,000 profiles", "5,000 distinct profiles.", Size(profiles=5000), PLAIN)


def _report(name: str, words: str, full: Size, kind: Kind) -> str:
    size = scaled(full)
    warm_up(kind)
    filling = filled(made_world(size, kind))
    bare = bare_fill(filling.snapshot, len(filling.plan_s))
    scanned, placed = effort(filling.snapshot)
    checked = hold_to_rules(filling.snapshot, filling.plan, "Filling")
    return "\n".join(
        [
            f"{size}. {words} {MEASURE}",
            "",
            *table(FILL_HEADINGS, [fill_row(name, filling)]),
            "",
            f"{filling.starts:,} jobs started. {scanned / placed:.2f} nodes were looked at for each task placed.",
            f"{distinct_profiles(filling.snapshot):,} distinct profiles were queued.",
            "",
            *fill_bars(filling, bare, BAR),
            "",
            checked,
        ]
    )
