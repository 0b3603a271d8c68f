"""Which pods of ours there are, and which of them are a gang, as SchedulingSpecs and PodGroups come and go."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Change, keep
from muster.kubernetes.groups import NativeGroup, PluginGroup, PriorityClass, SchedulingSpec
from muster.kubernetes.jobs import NATIVE, PLUGIN, Gang, Groups, by_age


class Register:
    """Pods of ours that are not over, by uid and by gang. `dirty`: gangs that must be arranged anew, in order."""

    def __init__(self) -> None:
        self.groups = Groups()
        self.members: dict[str, Member] = {}
        self.dirty: dict[Gang, None] = {}
        self._gangs: dict[Gang, dict[str, Member]] = {}
        self._owned: dict[tuple[str, str], set[str]] = {}  # uids of pods by namespace and controller
        self._numbers = count(1)

    def enter(self, member: Member) -> None:
        """One more; it gets its number."""
        member.number = next(self._numbers)
        self.members[member.uid] = member
        if (owner := member.pod.metadata.controller) is not None:
            self._owned.setdefault((member.pod.metadata.namespace, owner.uid), set()).add(member.uid)
        self._join(member)

    def leave(self, member: Member) -> None:
        """One is over, or gone."""
        self._part(member)
        del self.members[member.uid]
        if (owner := member.pod.metadata.controller) is not None:
            key = (member.pod.metadata.namespace, owner.uid)
            self._owned[key].discard(member.uid)
            if not self._owned[key]:
                del self._owned[key]

    def of(self, gang: Gang) -> list[Member]:
        """The pods of a gang, the oldest first."""
        return sorted(self._gangs.get(gang, {}).values(), key=lambda member: by_age(member.pod))

    def are_more_than(self, gang: Gang, many: int) -> bool:
        """Whether the gang has more pods than so many."""
        return len(self._gangs.get(gang, {})) > many

    def look_at(self, uids: Iterable[str]) -> None:
        """Something about these pods is different."""
        self.dirty.update((self.members[uid].gang, None) for uid in sorted(uids))

    def take_dirty(self) -> dict[Gang, None]:
        """The gangs to be arranged; they are not dirty any more."""
        dirty, self.dirty = self.dirty, {}
        return dirty

    def _join(self, member: Member) -> None:
        self._gangs.setdefault(member.gang, {})[member.uid] = member
        self.dirty[member.gang] = None

    def _part(self, member: Member) -> None:
        gang = self._gangs[member.gang]
        del gang[member.uid]
        if not gang:
            del self._gangs[member.gang]
        self.dirty[member.gang] = None

    # -- what caches tell ------------------------------------------------------------------------------------

    def hear_spec(self, change: Change[SchedulingSpec]) -> None:
        """A SchedulingSpec appeared, changed or went: its controller's pods are a gang, or no more."""
        for spec in (change.before, change.after):
            owner = spec.metadata.controller if spec is not None else None
            if spec is None or owner is None:
                continue
            key = (spec.metadata.namespace, owner.uid)
            of_owner = self.groups.specs.setdefault(key, {})
            of_owner.pop(spec.metadata.name, None)
            if spec is change.after:
                of_owner[spec.metadata.name] = spec
            elif not of_owner:
                del self.groups.specs[key]
            for uid in sorted(self._owned.get(key, ())):
                self._regroup(self.members[uid])

    def _regroup(self, member: Member) -> None:
        self._part(member)
        member.gang = self.groups.gang_of(member.pod)
        self._join(member)

    def hear_plugin_group(self, change: Change[PluginGroup]) -> None:
        """A PodGroup of scheduler-plugins appeared, changed or went."""
        self.dirty[Gang(PLUGIN, *keep(self.groups.plugin, change))] = None

    def hear_native_group(self, change: Change[NativeGroup]) -> None:
        """A PodGroup of Kubernetes' own appeared, changed or went."""
        self.dirty[Gang(NATIVE, *keep(self.groups.native, change))] = None

    def hear_class(self, change: Change[PriorityClass]) -> None:
        """A PriorityClass appeared, changed or went: SchedulingSpecs may name it."""
        keep(self.groups.classes, change)
        for key in self.groups.specs:
            self.look_at(self._owned.get(key, ()))
