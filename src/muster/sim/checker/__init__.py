"""An independent look at a plan: is it allowed, and does it tell the truth?

Restates the rules of design.md 2–5 by itself, in the simplest way, without a line of the engine: it only
replays what a plan decided on what a snapshot says, and notes every rule that is broken on the way.
"""

from muster.sim.checker.check import check, check_some

__all__ = ["check", "check_some"]
