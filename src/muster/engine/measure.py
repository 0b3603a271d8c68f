"""How nodes that fit are compared, in numbers: the rule of a policy as the kernels read it (kernels/measuring.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.columns.fleet_index import Grounds, blank_cells, cells_of
from muster.engine.kernels import measuring
from muster.engine.kernels.placing import Cells
from muster.model.jobs import TaskGroup
from muster.model.placement import Placement, PlacementRule, Typical

_PARTS = 1 << 16  # that all typical tasks are together
_MEMOS = 1 << 12  # a power of two

_RULES = {
    PlacementRule.TIGHTEST: measuring.TIGHTEST,
    PlacementRule.FRAGMENTATION: measuring.FRAGMENTATION,
    PlacementRule.GRADIENT: measuring.GRADIENT,
    PlacementRule.BEST_FIT: measuring.BEST_FIT,
    PlacementRule.DOT_PRODUCT: measuring.DOT_PRODUCT,
    PlacementRule.PACKING: measuring.PACKING,
    PlacementRule.RANDOM: measuring.RANDOM,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A rule other than the tightest fit. `parts`: how many of all typical tasks are of each kind."""

    rule: PlacementRule
    seed: int = 0
    groups: tuple[TaskGroup, ...] = ()
    parts: tuple[int, ...] = ()

    @property
    def weighs(self) -> bool:
        """Whether what kinds can use of the fleet decides how much they weigh."""
        return self.rule is PlacementRule.FRAGMENTATION

    def cells(self, grounds: Grounds, first: int, *, listed: bool) -> Cells:
        """The measure in cells, which will begin at `first`."""
        kinds = len(self.groups)
        alike, is_open = grounds.alike_to(self.groups)
        alike_from = first + measuring.FIRST_KIND + kinds * measuring.KIND
        open_from = alike_from + len(alike)
        memo_from = open_from + len(is_open)
        memos = _MEMOS if self.rule.knows_typical else 0
        head = [
            _RULES[self.rule],
            self.seed,
            0,
            max(grounds.most_cpu, 1),
            max(grounds.most_milli, 1),
            kinds,
            sum(self.parts),
        ]
        head += [alike_from, open_from, memo_from, max(memos - 1, 0)]
        for group, part in zip(self.groups, self.parts, strict=True):
            head += [grounds.group_number(group), part, 0]
        size = memos * (measuring.MEMO_ROOM + len(grounds.dims) + grounds.devices)
        made = blank_cells(memo_from - first + size, listed=listed)
        known = [*head, *alike, *is_open]
        made[: len(known)] = cells_of(known, listed=listed)
        return made


def told(placement: Placement, typical: Sequence[Typical]) -> Measure:
    """The measure of a rule that is told these kinds."""
    kinds = [it for it in typical if it.request.gpus or placement.rule is PlacementRule.GRADIENT]
    kinds.sort(key=lambda it: it.request.gpu_milli)  # as the kernels expect
    total = sum(it.count for it in kinds)
    return Measure(
        rule=placement.rule,
        groups=tuple(_group(it) for it in kinds),
        parts=tuple(max(it.count * _PARTS // total, 1) for it in kinds),
    )


def _group(kind: Typical) -> TaskGroup:
    return TaskGroup(name="", min=1, initial=1, max=1, request=kind.request, constraint=kind.constraint)
