"""The rules of a turn, plainly: what `muster.engine` must decide, written for reading and not for speed.

It reads a snapshot's values and shares no code with the engine. `test_oracle.py` holds the engine to it.
"""

from oracle.turn import plan

__all__ = ["plan"]
