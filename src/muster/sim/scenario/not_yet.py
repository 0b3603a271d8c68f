"""What scenario.md knows and this version does not do: pools.

The one list of it: take a line away when the thing works.
"""

from __future__ import annotations

NOT_YET = {
    # keys of a mapping, as kind.key
    "scenario.pools": "pools",
    "calendar.pool": "pools",
    "job.pool": "pools",
    "event.setPool": "pools",
    "event.deletePool": "pools",
    # values
}
