"""What a policy says about placement: `placement: fragmentation`, or a mapping with the rule and what it is told."""

from __future__ import annotations

from muster.documents.fields import Fields
from muster.documents.jobs.groups import read_constraint, read_request
from muster.documents.scalars import INT32
from muster.model.placement import TIGHTEST, Placement, PlacementRule, Typical

_RULES = {rule.value: rule for rule in PlacementRule}


def read_placement(config: Fields) -> Placement:
    """The key `placement`."""
    if not config.has_map("placement"):
        return Placement(rule=config.choice("placement", _RULES, TIGHTEST.rule))
    fields = config.mapping("placement", "placement")
    rule = fields.choice("rule", _RULES, TIGHTEST.rule)
    placement = Placement(
        rule=rule,
        seed=fields.integer("seed", TIGHTEST.seed, 0, INT32),
        typical=tuple(_typical(kind) for kind in fields.entries("typical", "typical")),
    )
    if not fields.has("rule"):
        fields.missing("rule", f"one of {', '.join(_RULES)}")
    elif fields.has("seed") and rule is not PlacementRule.RANDOM:
        fields.add("seed", f"only {PlacementRule.RANDOM.value} draws by chance")
    if fields.has("typical") and not rule.knows_typical:
        names = " and ".join(name for name, rule in _RULES.items() if rule.knows_typical)
        fields.add("typical", f"only {names} ask what is typical")
    fields.close()
    return placement


def _typical(kind: Fields) -> Typical:
    typical = Typical(
        request=read_request(kind), constraint=read_constraint(kind), count=kind.integer("count", 1, 1, INT32)
    )
    kind.close_with_amounts()
    return typical
