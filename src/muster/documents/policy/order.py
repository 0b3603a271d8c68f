"""What a policy says about the order inside queues: a name, or the exponents of a score (muster.model.order)."""

from __future__ import annotations

from muster.documents.fields import Fields
from muster.documents.values import Map
from muster.model.order import NAMED, Order
from muster.model.resources import MICRO

_EXPONENT = "a number from -20 to 20 with at most three decimals"
_MOST = 20
_THOUSANDTH = MICRO // 1000


def read_order(config: Fields, default: Order) -> Order:
    """The key `order` of the config."""
    if not isinstance(config.get("order"), Map):
        return config.choice("order", NAMED, default)
    fields = config.mapping("order", "order")
    exponents = {name: _thousandths(fields, name) for name in ("expected", "size", "waited", "sojourn", "attained")}
    order = Order(
        **exponents,
        patience_ms=fields.duration("patience", 1, least_ms=1),
        floor_ms=fields.duration("atLeast", 1, least_ms=1),
    )
    fields.close()
    return order


def _thousandths(fields: Fields, key: str) -> int:
    micro = fields.micro(key, _EXPONENT, least=-_MOST * MICRO, most=_MOST * MICRO) or 0
    if micro % _THOUSANDTH:
        fields.refuse(key, _EXPONENT)
    return micro // _THOUSANDTH
