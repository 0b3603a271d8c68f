"""What scenario.md knows and this version does not do: pools and width.

The one list of it: take a line away when the thing works.
"""

from __future__ import annotations

NOT_YET = {
    # keys of a mapping, as kind.key
    "scenario.pools": "pools",
    "scenario.calendar": "the capacity calendar of pools",
    "scenario.budgets": "disruption budgets",
    "config.elasticEvery": "elastic width",
    "config.maxLoad": "elastic width",
    "job.pool": "pools",
    "job.level": "levels of elastic jobs",
    "job.freezingWindow": "freezing windows of elastic jobs",
    "event.setPool": "pools",
    "event.deletePool": "pools",
    "setJob.level": "levels of elastic jobs",
    # values
    "job.runtime=work": "elastic jobs that run for an amount of work",
    "group.max>initial": "elastic groups, whose max is above their initial",
}
