"""Who wins a race over clusters that can only submit, query and cancel (design.md 4.7).

`observe(race, sightings, now_ms)` is the one rule: what was seen goes in, the race as it stands and what to do about it
come out. No clock and no memory of its own; whoever calls it stores the race before acting on what it says.

observing   the rule: hear, decide, ask
hearing     what one sighting says about one rival
deciding    who is scheduled, whose deadline has come, who leads
asking      what must be sent, and when to look again
words       the race in a sentence, and what it wasted
"""

from __future__ import annotations

from muster.engine.race.observing import observe

__all__ = ["observe"]
