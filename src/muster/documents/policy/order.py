"""What a policy says about order. Inside queues: a name, or the exponents of a score (muster.model.order). Among them:
how much queues of short jobs come first."""

from __future__ import annotations

from muster.documents.fields import Fields
from muster.documents.values import Map
from muster.model.order import NAMED, Order
from muster.model.policy import FairBy
from muster.model.resources import MICRO

_EXPONENT = "a number from -20 to 20 with at most three decimals"
_MOST = 20
_PART = "a number from 0 to 1 with at most three decimals"
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


def read_short_first(config: Fields, default: int) -> int:
    """The key `shortFirst` of the config, in thousandths."""
    micro = config.micro("shortFirst", _PART, least=0, most=MICRO)
    if micro is None:
        return default
    if micro % _THOUSANDTH:
        config.refuse("shortFirst", _PART)
    return micro // _THOUSANDTH


def read_fair_by(config: Fields, default: FairBy, short_first: int) -> FairBy:
    """The key `fairBy` of the config. How long jobs run is a factor of flows, so `shortFirst` goes by flow."""
    fair_by = config.choice("fairBy", {by.value: by for by in FairBy}, FairBy.FLOW if short_first else default)
    if short_first and fair_by is not FairBy.FLOW:
        config.add("shortFirst", f"compares flows: leave out fairBy, or say {FairBy.FLOW.value}")
    return fair_by


def _thousandths(fields: Fields, key: str) -> int:
    micro = fields.micro(key, _EXPONENT, least=-_MOST * MICRO, most=_MOST * MICRO) or 0
    if micro % _THOUSANDTH:
        fields.refuse(key, _EXPONENT)
    return micro // _THOUSANDTH
