"""The policy that turns go by: what the configuration says, and over it what operators have set.

What was set is kept as it would be read again; a key that is taken back is again what the configuration says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.documents.fields import Fields
from muster.documents.policy.running import ANYWHERE, Changes, Places, read_changes, written
from muster.documents.problems import Problems
from muster.documents.values import decoded
from muster.model.errors import InvalidValue
from muster.model.policy import Policy, Preemption

Kept = Mapping[str, Any]


class Ruling:
    """A configured policy with what was set of it."""

    def __init__(self, configured: Policy, preemption: str | None, kept: Kept) -> None:
        self._configured = configured
        self._preemption = preemption
        self.kept = dict(kept)

    def policy(self) -> Policy:
        """What turns go by."""
        return self._with(self.kept)

    def set_preemption(self, preemption: Preemption) -> Policy:
        """An operator said whether turns may evict; the policy with that."""
        self._preemption = preemption.value
        return self.policy()

    def changed(self, given: Kept, places: Places) -> dict[str, Any]:
        """What would be kept if this were set, None taking a key back; raises DocumentError."""
        said = {key: value for key, value in given.items() if value is not None}
        read = self._read(said, places).by_key
        now = written(replace(self._configured, **dict(read.values())))
        kept = {key: value for key, value in self.kept.items() if key not in given}
        return kept | {key: now[key] for key in read}

    def _with(self, kept: Kept) -> Policy:
        policy = replace(self._configured, **self._read(kept, ANYWHERE).fields())
        return policy if self._preemption is None else replace(policy, preemption=Preemption(self._preemption))

    def _read(self, said: Kept, places: Places) -> Changes:
        problems = Problems("")
        try:
            value = decoded(dict(said))
        except InvalidValue as err:
            problems.stop("", 0, err.allowed)
        fields = Fields.of("policy", value, "", problems)
        assert fields is not None, "it is a mapping"
        read = read_changes(fields, self._configured, places)
        if problems:
            raise problems.error()
        return read
