"""What of a policy may change while a server runs: how it is read, and how it is written down again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.known import listed
from muster.documents.policy.calendar import EPOCH_MONDAY_MS, read_calendar, time_of_day
from muster.documents.policy.reading import read_over_share
from muster.model.calendar import DAYS, Window
from muster.model.policy import SECOND_MS, Policy
from muster.model.pools import DEFAULT_NAME, as_pool, called
from muster.model.resources import MICRO, format_amount

KEYS = ("agingAfter", "overShare", "coresPerGpu", "calendar")
MOST_WINDOWS = 100

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The clusters and pools that a calendar may name; None: any."""

    clusters: Collection[str] | None = None
    pools: Collection[str] | None = None
    where: str = "this server"

    def named(self, fields: Fields, key: str) -> str | None:
        """The pool under a key; None when it is absent or wrong."""
        name = fields.name(key)
        if name is not None and self.pools is not None and name not in (DEFAULT_NAME, *self.pools):
            fields.refuse(key, listed("a pool", [DEFAULT_NAME, *self.pools], self.where))
        return None if name is None else as_pool(name)


ANYWHERE = Places()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Fields of model.policy.Policy by the key that sets them."""

    by_key: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """The fields of the policy with their values."""
        return dict(self.by_key.values())


def read_changes(config: Fields, default: Policy, places: Places = ANYWHERE) -> Changes:
    """What is given of these keys; what is wrong with them is noted."""
    windows = read_calendar(config, places.clusters, places, where=places.where, has_clock=True)
    if len(windows) > MOST_WINDOWS:
        config.refuse("calendar", f"at most {MOST_WINDOWS} windows")
    read = {
        "agingAfter": ("aging_after_ms", config.duration("agingAfter", default.aging_after_ms)),
        "overShare": ("over_share", read_over_share(config, default.over_share)),
        "coresPerGpu": ("cores_per_gpu", config.cores("coresPerGpu")),
        "calendar": ("calendar", windows),
    }
    config.close()
    return Changes(by_key={key: value for key, value in read.items() if config.has(key)})


def written(policy: Policy) -> dict[str, Any]:
    """The values of these keys: reading them gives the same."""
    return {
        "agingAfter": policy.aging_after_ms / SECOND_MS,
        "overShare": "off" if policy.over_share is None else policy.over_share / MICRO,
        "coresPerGpu": policy.cores_per_gpu / 1000,
        "calendar": [_window(window) for window in policy.calendar],
    }


def _window(window: Window) -> dict[str, Any]:
    place = {"cluster": window.cluster} if window.cluster else {}
    if window.pool is not None:
        place["pool"] = called(window.pool)
    minutes = (EPOCH_MONDAY_MS - window.monday_ms) // _MINUTE_MS
    return {
        **place,
        "days": ",".join(DAYS[day] for day in sorted(window.days)),
        "from": time_of_day(window.from_ms),
        "to": time_of_day(window.to_ms),
        "withhold": {name: format_amount(name, amount) for name, amount in window.withhold.items()},
        "shrinkAhead": window.ahead_ms / SECOND_MS,
        "utcOffset": f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}",
    }
