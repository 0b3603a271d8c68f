"""How many pods PodDisruptionBudgets let us evict now, as limits that the engine keeps to.

The eviction API refuses what a budget does not allow, so planning it would only hold room for nothing. What a pod
counts for is what the eviction API asks: pods that do not run are always let go, pods that are not ready mostly, and
pods that several budgets select never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from muster.kubernetes.batches import Member
from muster.kubernetes.cache import Change, keep
from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import Condition, Key, LabelSelector, Meta, Pod, Read
from muster.kubernetes.selectors import Selector, selector_of
from muster.model import events as ev
from muster.model.budgets import EvictionLimit

GIVES_WAY, BY_US = "DisruptionTarget", "PreemptionByScheduler"  # as Kubernetes' own scheduler says it
_SEVERAL = "several budgets"  # not a name that an object can have


class BudgetSpec(Read, frozen=True):
    """Which pods it is for. How many of them must stay is for its controller to work out."""

    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class BudgetStatus(Read, frozen=True):
    """What its controller worked out. `disrupted_pods`: evicted, and not counted by the controller yet."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disrupted_pods: dict[str, object] = msgspec.field(default_factory=dict)


class DisruptionBudget(Read, frozen=True):
    """A PodDisruptionBudget of policy/v1."""

    metadata: Meta = Meta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    def counts(self, pod: Pod) -> bool:
        """Whether evicting a pod that it selects takes one of those that it allows."""
        if pod.status.phase != "Running" or pod.metadata.deletion_timestamp is not None:
            return False
        if _is_ready(pod.status.conditions):
            return True
        status = self.status
        is_healthy = 0 < status.desired_healthy <= status.current_healthy
        return not (is_healthy or self.spec.unhealthy_pod_eviction_policy == "AlwaysAllow")

    @property
    def allowed(self) -> int:
        """How many may go; none until its controller has seen how it is now."""
        is_known = self.status.observed_generation >= self.metadata.generation
        return max(self.status.disruptions_allowed, 0) if is_known else 0


DISRUPTION_BUDGETS = Kind(type=DisruptionBudget, plural="poddisruptionbudgets", version="v1", group="policy")


class Disruptions:
    """All budgets, and the limits that follow for our pods that are bound. `touch` whatever pod may count otherwise."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members
        self._budgets: dict[Key, DisruptionBudget] = {}
        self._selectors: dict[str, dict[str, Selector | None]] = {}  # by namespace and name
        self._there: dict[str, set[str]] = {}  # uids of pods of ours that are bound, by namespace
        self._stale: dict[str, None] = {}
        self._told: dict[str, dict[str, EvictionLimit]] = {}  # by namespace and name

    def hear(self, change: Change[DisruptionBudget]) -> None:
        """A budget appeared, changed or went."""
        namespace, name = keep(self._budgets, change)
        mine = self._selectors.setdefault(namespace, {})
        mine.pop(name, None)
        if change.after is not None:
            mine[name] = selector_of(change.after.spec.selector)
        if not mine:
            del self._selectors[namespace]
        self._stale[namespace] = None

    def touch(self, member: Member) -> None:
        """A pod was bound, went, or looks different."""
        namespace = member.pod.metadata.namespace
        there = self._there.setdefault(namespace, set())
        if member.node and member.uid in self._members:
            there.add(member.uid)
        else:
            there.discard(member.uid)
        if namespace in self._selectors:
            self._stale[namespace] = None

    def news(self) -> Iterator[ev.Event]:
        """What became of the limits since this was asked last."""
        stale, self._stale = self._stale, {}
        for namespace in stale:
            limits = {limit.name: limit for limit in self._limits(namespace)}
            told = self._told.pop(namespace, {})
            for name in sorted(told.keys() - limits):
                yield ev.EvictionLimitGone(limit=name)
            yield from (ev.EvictionLimitSet(limit=limit) for name, limit in limits.items() if told.get(name) != limit)
            if limits:
                self._told[namespace] = limits

    def _limits(self, namespace: str) -> Iterable[EvictionLimit]:
        selectors = sorted(self._selectors.get(namespace, {}).items())
        covers: dict[str, Counter[str]] = {name: Counter() for name, _ in selectors}
        going: Counter[str] = Counter()  # those whose eviction was ordered, and not counted yet
        for uid in sorted(self._there.get(namespace, ())) if selectors else ():
            member = self._members[uid]
            name = self._budget_of(member.pod, selectors)
            if name and member.is_leaving:
                going[name] += name != _SEVERAL and not self._has_counted(namespace, name, member.pod)
            elif name and member.task is not None:
                covers.setdefault(name, Counter())[member.job] += 1
        for name, jobs in covers.items():
            allowed = 0 if name == _SEVERAL else max(self._budgets[namespace, name].allowed - going[name], 0)
            yield EvictionLimit(name=f"{namespace}/{name}", allowed=allowed, covers=tuple(sorted(jobs.items())))

    def _budget_of(self, pod: Pod, selectors: Iterable[tuple[str, Selector | None]]) -> str:
        """The budget that a pod counts in, if any."""
        meta = pod.metadata
        mine = [name for name, selector in selectors if selector is not None and selector.matches(meta.labels)]
        counts = [name for name in mine if self._budgets[meta.namespace, name].counts(pod)]
        if len(mine) > 1 and pod.status.phase == "Running":
            return _SEVERAL
        return counts[0] if counts else ""

    def _has_counted(self, namespace: str, name: str, pod: Pod) -> bool:
        return pod.metadata.name in self._budgets[namespace, name].status.disrupted_pods


def _is_ready(conditions: Iterable[Condition]) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def gives_way(pod: Pod) -> bool:
    """Whether a scheduler began to evict it, perhaps one before us that did not come to an end."""
    return any(it.type == GIVES_WAY and it.status == "True" and it.reason == BY_US for it in pod.status.conditions)
