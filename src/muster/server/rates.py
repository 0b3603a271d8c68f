"""How often someone may ask: so many requests a second, and a few seconds' worth of them at once.

Of everyone who asks, one number is kept: when all they asked so far would be over had they kept to the rate. Who is
further ahead of the clock than a burst allows waits for the rest. Whoever is not ahead of it need not be remembered.
"""

from __future__ import annotations

BURST_S = 2.0  # of requests may come at once
MOST_KNOWN = 10_000  # of whom something is kept before those who are not ahead of the clock are forgotten


class Rate:
    """At most `per_s` requests a second of each; 0: any number."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self._each_s = 1 / per_s if per_s else 0.0
        self._ahead_s = max(BURST_S, self._each_s)
        self._until_s: dict[str, float] = {}

    def wait_s(self, who: str, now_s: float) -> float:
        """0 if the request may come in, which counts; else after how long it may."""
        until_s = max(self._until_s.get(who, 0.0), now_s) + self._each_s
        too_early_s = until_s - now_s - self._ahead_s
        if too_early_s > 1e-9:
            return too_early_s
        if len(self._until_s) >= MOST_KNOWN:
            self._forget(now_s)
        self._until_s[who] = until_s
        return 0.0

    def _forget(self, now_s: float) -> None:
        """Those who are not ahead; and if everyone is, they are too many to be held to anything."""
        ahead = {who: until_s for who, until_s in self._until_s.items() if until_s > now_s}
        self._until_s = ahead if len(ahead) < MOST_KNOWN else {}
