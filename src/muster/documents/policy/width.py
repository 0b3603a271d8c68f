"""What a policy says about width: rules, levels, cores beside GPUs."""

from __future__ import annotations

from typing import Any

from muster.documents.fields import Fields
from muster.documents.scalars import NAME, is_name
from muster.model.policy import Policy, WidthRule
from muster.model.resources import MICRO
from muster.model.width import LEVELS, MOST_LEVEL, NORMAL

_PERCENT = MICRO // 100
_MOST_UNEVEN = 100


def read_width(config: Fields, default: Policy) -> dict[str, Any]:
    """The fields of model.policy.Policy that are about width."""
    every_ms = config.optional_duration("elasticEvery", least_ms=1) if not config.is_off("elasticEvery") else None
    is_given = config.has("elasticEvery")
    load = config.micro("maxLoad", "a number above 0 and up to 1 with at most six decimals", least=1, most=MICRO)
    allowed = f"a number from 1 to {_MOST_UNEVEN} with at most two decimals"
    uneven = config.micro("uneven", allowed, least=MICRO, most=_MOST_UNEVEN * MICRO)
    if uneven is not None and uneven % _PERCENT:
        config.refuse("uneven", allowed)
        uneven = None
    return {
        "elastic_every_ms": every_ms if is_given else default.elastic_every_ms,
        "max_load": default.max_load if load is None else load,
        "uneven_percent": default.uneven_percent if uneven is None else uneven // _PERCENT,
        "cores_per_gpu": config.cores("coresPerGpu"),
        "width": config.choice("width", {rule.value: rule for rule in WidthRule}, default.width),
        "resize_cost_ms": config.duration("resizeCost", default.resize_cost_ms),
    }


def read_levels(config: Fields) -> dict[str, int]:
    """The document's levels, and those that the file adds or changes."""
    fields = config.mapping("levels", "levels")
    levels = dict(LEVELS)
    for name in fields.given():
        levels[name] = fields.integer(name, NORMAL, 1, MOST_LEVEL)
        if not is_name(name):
            fields.refuse_key(name, NAME)
    return levels
