"""The scheduler's settings as people write them: `config` of a scenario, `policy` of a server's configuration."""

from __future__ import annotations

from collections.abc import Mapping

from muster.documents.fields import Fields
from muster.documents.policy.order import read_fair_by, read_order, read_short_first
from muster.documents.policy.placement import read_placement
from muster.documents.policy.width import read_levels, read_width
from muster.documents.scalars import INT32, resource_name
from muster.documents.values import plain
from muster.model.errors import InvalidValue
from muster.model.policy import EVERYONE, Policy, Preemption
from muster.model.resources import DEFAULT_WEIGHTS, MICRO, Weights

_MILLION = 1_000_000
_MOST_RESERVATIONS = 16


def read_policy(config: Fields, default: Policy) -> tuple[Policy, Mapping[str, int]]:
    """The policy and the levels that jobs may name; `default`: what is true where the mapping says nothing."""
    reservations, short_first = _reservations(config, default), read_short_first(config, default.short_first)
    fair_by = read_fair_by(config, default.fair_by, short_first)
    policy = Policy(
        **read_width(config, default),
        turn_ms=config.duration("turn", default.turn_ms, least_ms=1),
        half_time_ms=config.duration("halfTime", default.half_time_ms, least_ms=1),
        over_share=read_over_share(config, default.over_share),
        weights=_weights(config),
        order=read_order(config, default.order),
        fair_by=fair_by,
        short_first=short_first,
        reservations=reservations,
        reservations_in_all=max(reservations, default.reservations_in_all),
        move_points=None if config.is_off("moves") else config.optional_integer("moves", 1, 100),
        backfill=config.boolean("backfill", default.backfill),
        aging_after_ms=config.duration("agingAfter", default.aging_after_ms),
        preemption=config.choice("preemption", {mode.value: mode for mode in Preemption}, default.preemption),
        preempts_for_shares=config.boolean("preemptionForShares", default.preempts_for_shares),
        gpu_first=config.boolean("gpuFirst", default.gpu_first),
        starts_per_turn=config.optional_integer("startsPerTurn", 1, INT32),
        starts_per_queue=config.optional_integer("startsPerQueue", 1, INT32),
        placement=read_placement(config),
    )
    levels = read_levels(config)
    config.close()
    return policy, levels


def _reservations(config: Fields, default: Policy) -> int:
    """So many for each cluster and kind, or one for everyone who waits."""
    if config.is_word("reservations", "all"):
        return EVERYONE
    allowed = f"a whole number from 0 to {_MOST_RESERVATIONS}, or all"
    many = config.optional_integer("reservations", 0, _MOST_RESERVATIONS, allowed)
    return default.reservations if many is None else many


def read_over_share(config: Fields, default: int | None) -> int | None:
    """The key `overShare`: None where it is off."""
    if config.is_off("overShare"):
        return None
    allowed = f"a number above 0, at most {_MILLION}, with at most six decimals, or off"
    limit = config.micro("overShare", allowed, least=1, most=_MILLION * MICRO)
    return default if limit is None else limit


def _weights(config: Fields) -> Weights:
    """The default weights, with those changed that are given."""
    fields = config.mapping("weights", "weights")
    given: dict[str, int] = {}
    for key in fields.given():
        name = resource_name(key)
        value = fields.get(key)
        if name is None or value is None:
            fields.refuse_key(key, "resources: cpu, memory, gpu, pods, ephemeral-storage, storage or any with a slash")
            continue
        try:
            ((name, micro),) = Weights.of({key: plain(value)}).micro
        except InvalidValue as err:
            fields.refuse_invalid(err)
            continue
        if name in given:
            fields.add(key, f"{name} has a weight already: gpu is short for nvidia.com/gpu")
        given[name] = micro
    return Weights(micro=tuple(sorted((dict(DEFAULT_WEIGHTS.micro) | given).items())))
