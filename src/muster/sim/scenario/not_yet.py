"""What scenario.md knows and this version does not do.

The one list of it: take a line away when the thing works.
"""

from __future__ import annotations

NOT_YET = {
    # keys of a mapping, as kind.key
    "scenario.budgets": "disruption budgets",
    # values
}
