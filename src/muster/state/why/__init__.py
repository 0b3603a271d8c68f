"""Why a job waits, for people: one paragraph with the numbers, from a snapshot and the plan of the last turn.

`explain` finds the facts (`nodes.py`: what each kind of node lacks; `standing.py`: who is ahead, and the queue's share;
`helping.py`: what would start it, tried out), `words.py` puts them into sentences. Pure: no clock, no I/O.
"""

from muster.state.why.answer import Why, explain
from muster.state.why.words import paragraph

__all__ = ["Why", "explain", "paragraph"]
