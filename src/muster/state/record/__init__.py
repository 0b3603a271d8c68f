"""Recorded turns: what happened, what was decided, and whether it would be decided again (design.md 13).

A record is a file of lines (`lines.py`): the configuration, the events in order and the plan of every turn. The
`Recorder` writes one while a world runs; `replay` takes the same turns again and finds the first difference.
"""

from muster.state.record.reading import Record, RecordError
from muster.state.record.recorder import Recorder
from muster.state.record.replay import Difference, Replay

__all__ = ["Difference", "Record", "RecordError", "Recorder", "Replay"]
