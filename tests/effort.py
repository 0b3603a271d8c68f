"""How hard a property is searched for: worlds that take long are looked at less often, with `make fuzz` as well."""

from __future__ import annotations

from hypothesis import settings


def a_part(share: int) -> settings:
    """One in `share` of the usual number of worlds."""
    return settings(max_examples=max(settings().max_examples // share, 1))
