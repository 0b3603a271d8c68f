"""Pure decisions: a snapshot goes in, a plan comes out. See README.md here for the glossary.

No clock, no randomness, no I/O, no change to what it is given. Same snapshot, same plan, byte for byte.
"""

from muster.engine.planning import plan

__all__ = ["plan"]
