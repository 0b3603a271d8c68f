"""Resources: reading and writing amounts, arithmetic on them, and what they weigh."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model import quantity
from muster.model.errors import InvalidValue
from muster.model.resources import (
    CPU,
    DEFAULT_WEIGHTS,
    GPU,
    MEMORY,
    NOTHING,
    PODS,
    Resources,
    Weights,
    format_amount,
    parse_amount,
)

NAMES = [CPU, MEMORY, PODS, GPU, "ephemeral-storage", "vendor.com/thing", "hugepages-2Mi"]

amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1 << 40))
resources = amounts.map(Resources.of)


@pytest.mark.parametrize(
    "name, value, amount",
    [
        pytest.param(CPU, "1k", 1_000_000, id="EDL-Q1 a thousand cores are a million milli"),
        pytest.param(MEMORY, "100Mi", 104_857_600, id="EDL-Q1 a hundred mebibytes in bytes"),
        pytest.param(GPU, 10, 10_000, id="EDL-Q1 ten GPUs are ten thousand milli-devices"),
        pytest.param(CPU, "250m", 250, id="a quarter core"),
        pytest.param(CPU, 0.1, 100, id="a YAML float of cores"),
        pytest.param(CPU, "1.0001", 1001, id="cores round up to milli"),
        pytest.param(MEMORY, "1.5", 2, id="bytes round up"),
        pytest.param("ephemeral-storage", "1Ti", 1 << 40, id="storage in bytes"),
        pytest.param(PODS, "110", 110, id="pods are pieces"),
        pytest.param("vendor.com/thing", "2k", 2000, id="an extended resource with a suffix"),
        pytest.param(GPU, "2000m", 2000, id="whole GPUs written in milli"),
    ],
)
def test_an_amount_is_read_in_base_units(name: str, value: object, amount: int) -> None:
    assert parse_amount(name, value) == amount


@pytest.mark.parametrize(
    "name, value, message",
    [
        pytest.param(GPU, "1.5", "nvidia.com/gpu: '1.5': must be a whole number", id="GPUs come whole"),
        pytest.param(GPU, 0.5, "nvidia.com/gpu: 0.5: must be a whole number", id="also as a float"),
        pytest.param("a.com/b", "100m", "a.com/b: '100m': must be a whole number", id="extended resources come whole"),
        pytest.param(PODS, "1.5", "pods: '1.5': must be a whole number", id="pods come whole"),
        pytest.param(CPU, "two", "cpu: 'two': must be a quantity", id="no quantity"),
        pytest.param(CPU, "1E", r"cpu: '1E': overflow: quantities must be below 2\^63 ÷ 1000", id="too many milli"),
        pytest.param(GPU, "1E", r"overflow: quantities must be below 2\^63 ÷ 1000", id="too many devices"),
    ],
)
def test_a_refused_amount_names_the_resource(name: str, value: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message) as refused:
        parse_amount(name, value)

    assert refused.value.field == name


@pytest.mark.parametrize(
    "name, amount, text",
    [
        pytest.param(CPU, 1500, "1500m", id="a core and a half"),
        pytest.param(CPU, 2000, "2", id="two cores"),
        pytest.param(MEMORY, 4 << 30, "4Gi", id="memory takes binary suffixes"),
        pytest.param("requests.storage", 1 << 40, "1Ti", id="so does storage"),
        pytest.param("ephemeral-storage", 100, "100", id="a few bytes"),
        pytest.param(GPU, 8000, "8", id="whole GPUs"),
        pytest.param(GPU, 1500, "1.5", id="a GPU and a half"),
        pytest.param(GPU, 1, "0.001", id="a thousandth of a GPU"),
        pytest.param(GPU, 1050, "1.05", id="zeros inside stay"),
        pytest.param(PODS, 110, "110", id="pieces"),
        pytest.param(CPU, 0, "0", id="nothing"),
    ],
)
def test_an_amount_is_written_as_a_quantity(name: str, amount: int, text: str) -> None:
    assert format_amount(name, amount) == text


@given(name=st.sampled_from(NAMES), amount=st.integers(0, (1 << 63) - 1))
def test_property_amounts_round_trip(name: str, amount: int) -> None:
    if name == GPU:  # parts of a GPU are written but asked for in another way (gpuMilli)
        assert quantity.to_units(format_amount(name, amount), per=1000) == amount
        amount -= amount % 1000
    assert parse_amount(name, format_amount(name, amount)) == amount


def test_zeros_are_dropped_and_names_are_in_order() -> None:
    made = Resources.of({PODS: 1, CPU: 2, GPU: 0, MEMORY: 3})

    assert list(made) == [CPU, MEMORY, PODS]
    assert list(made.items()) == [(CPU, 2), (MEMORY, 3), (PODS, 1)]
    assert (made.get(CPU), made.get(GPU), made[GPU]) == (2, 0, 0)
    assert GPU not in made
    assert len(made) == 3
    assert dict(made) == {CPU: 2, MEMORY: 3, PODS: 1}


def test_equal_amounts_are_one_key_whatever_their_history() -> None:
    one = Resources.of({CPU: 1, MEMORY: 2})
    other = Resources.of({MEMORY: 2}) + Resources.of({CPU: 3}) - Resources.of({CPU: 2})

    assert one == other
    assert hash(one) == hash(other)
    assert {one: "found"}[other] == "found"
    assert one != {CPU: 1, MEMORY: 2}


@pytest.mark.parametrize("amount", [-1, 1.0, "1", True, None], ids=["negative", "float", "text", "boolean", "nothing"])
def test_only_whole_amounts_of_zero_or_more_are_held(amount: object) -> None:
    with pytest.raises(InvalidValue, match=r"cpu: .*: must be a whole number of base units, zero or more"):
        Resources.of({CPU: amount})  # type: ignore[dict-item]


def test_taking_more_than_there_is_breaks_an_invariant() -> None:
    with pytest.raises(ArithmeticError, match="memory would go below zero"):
        Resources.of({CPU: 5, MEMORY: 1}) - Resources.of({CPU: 1, MEMORY: 2})
    with pytest.raises(ArithmeticError, match="memory would go below zero"):
        NOTHING - Resources.of({MEMORY: 1})
    with pytest.raises(ArithmeticError):
        Resources.of({CPU: 5}) * -1


@pytest.mark.parametrize(
    "room, request_, missing",
    [
        pytest.param({CPU: 4}, {CPU: 4}, {}, id="exactly enough"),
        pytest.param({CPU: 4, GPU: 1}, {CPU: 4}, {}, id="what is not asked for does not matter"),
        pytest.param({CPU: 4}, {CPU: 5}, {CPU: 1}, id="one milli short"),
        pytest.param({CPU: 4}, {GPU: 1000}, {GPU: 1000}, id="a dimension the node lacks"),
        pytest.param({}, {CPU: 1, MEMORY: 2}, {CPU: 1, MEMORY: 2}, id="nothing lacks everything"),
        pytest.param({}, {}, {}, id="nothing covers nothing"),
        pytest.param({MEMORY: 9}, {CPU: 0}, {}, id="asking for zero asks for nothing"),
    ],
)
def test_only_requested_dimensions_are_compared(
    room: dict[str, int], request_: dict[str, int], missing: dict[str, int]
) -> None:
    assert Resources.of(room).missing(Resources.of(request_)) == missing
    assert Resources.of(room).covers(Resources.of(request_)) is not bool(missing)


def test_a_cap_binds_only_the_names_it_has() -> None:
    held = Resources.of({CPU: 5, GPU: 2000, PODS: 1})

    assert held.capped({CPU: 3, MEMORY: 7}) == Resources.of({CPU: 3, GPU: 2000, PODS: 1})
    assert held.capped(Resources.of({CPU: 9})) == held
    assert held.capped({GPU: 0}) == Resources.of({CPU: 5, PODS: 1})


def test_text_is_kubernetes_quantities() -> None:
    held = Resources.of({CPU: 1500, MEMORY: 4 << 30, GPU: 300})

    assert held.to_text() == {CPU: "1500m", MEMORY: "4Gi", GPU: "0.3"}


def test_resources_survive_copying_and_another_process() -> None:
    held = Resources.of({CPU: 1, MEMORY: 2})
    hash(held)
    script = (
        "import pickle, sys; from muster.model.resources import Resources; "
        "held = pickle.loads(sys.stdin.buffer.read()); "
        "sys.exit(hash(held) != hash(Resources.of({'cpu': 1, 'memory': 2})))"
    )

    assert copy.deepcopy(held) == held
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps(held), check=True, timeout=60)


@given(a=resources, b=resources)
def test_property_adding_and_subtracting_undo_each_other(a: Resources, b: Resources) -> None:
    assert a + b == b + a
    assert a + b - b == a
    assert a + NOTHING == a
    assert a - a == NOTHING
    assert hash(a + b) == hash(b + a)


@given(a=resources, b=resources)
def test_property_results_are_sorted_and_without_zeros(a: Resources, b: Resources) -> None:
    for made in (a + b, a + b - b, a * 3, a * 0, a.lowest(b), a.capped(b), a.capped(dict.fromkeys(NAMES, 0))):
        assert list(made) == sorted(made)
        assert all(amount > 0 for _, amount in made.items())
        assert made == Resources.of(dict(made))


@given(a=resources, b=resources)
def test_property_covers_agrees_with_missing_and_subtraction(a: Resources, b: Resources) -> None:
    missing = Resources.of(a.missing(b))

    assert a.covers(b) is (missing == NOTHING)
    assert (a + missing).covers(b)
    if a.covers(b):
        assert a - b + b == a
    else:
        with pytest.raises(ArithmeticError):
            a - b


@given(a=resources, b=resources)
def test_property_lowest_is_covered_by_both(a: Resources, b: Resources) -> None:
    lowest = a.lowest(b)

    assert lowest == b.lowest(a)
    assert a.covers(lowest)
    assert b.covers(lowest)
    assert dict(lowest) == {name: low for name in NAMES if (low := min(a.get(name), b.get(name)))}


@given(a=resources, times=st.integers(0, 5))
def test_property_multiplying_is_adding_again(a: Resources, times: int) -> None:
    total = NOTHING
    for _ in range(times):
        total += a
    assert a * times == total


@given(a=resources, limit=amounts)
def test_property_capping_is_a_minimum_per_named_dimension(a: Resources, limit: dict[str, int]) -> None:
    capped = a.capped(limit)

    for name in NAMES:
        assert capped.get(name) == (min(a.get(name), limit[name]) if name in limit else a.get(name))


@pytest.mark.parametrize(
    "held, usage",
    [
        pytest.param({CPU: 1000}, 1_000_000, id="a core is one unit"),
        pytest.param({MEMORY: 4 << 30}, 1_000_000, id="four gibibytes weigh as much as a core"),
        pytest.param({GPU: 1000}, 16_000_000, id="a GPU weighs sixteen cores"),
        pytest.param({GPU: 300}, 4_800_000, id="part of a GPU weighs its part"),
        pytest.param({CPU: 1000, MEMORY: 4 << 30, GPU: 1000}, 18_000_000, id="weights add up"),
        pytest.param({PODS: 9, "vendor.com/thing": 3}, 0, id="what has no weight weighs nothing"),
        pytest.param({MEMORY: 2147}, 0, id="just under half a micro-unit rounds down"),
        pytest.param({MEMORY: 2148}, 1, id="over half a micro-unit rounds up"),
        pytest.param({}, 0, id="nothing weighs nothing"),
    ],
)
def test_usage_with_the_default_weights(held: dict[str, int], usage: int) -> None:
    assert DEFAULT_WEIGHTS.usage(Resources.of(held)) == usage


def test_weights_are_kept_in_micro_units_by_full_name() -> None:
    weights = Weights.of({"gpu": 16, "cpu": 0.1, "vendor.com/thing": "0.000001", "ephemeral-storage": 2})

    assert weights.micro == (
        (CPU, 100_000),
        ("ephemeral-storage", 2_000_000),
        (GPU, 16_000_000),
        ("vendor.com/thing", 1),
    )
    assert weights.usage(Resources.of({"vendor.com/thing": 3, "ephemeral-storage": 1 << 30})) == 2_000_003
    assert weights == Weights.of(
        {"ephemeral-storage": "2", "vendor.com/thing": 1e-6, GPU: 16.0, "cpu": "0.10"},
    )


def test_exactly_half_a_micro_unit_rounds_up() -> None:
    assert Weights.of({"cpu": "0.0005"}).usage(Resources.of({CPU: 1})) == 1


@pytest.mark.parametrize(
    "weight",
    [
        pytest.param(-1, id="negative"),
        pytest.param(1_000_001, id="more than a million"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(True, id="a YAML boolean"),
        pytest.param("heavy", id="a word"),
        pytest.param(None, id="nothing"),
        pytest.param("0.0000001", id="finer than a micro-unit"),
        pytest.param("1e999999999", id="absurd"),
    ],
)
def test_a_weight_is_a_number_from_0_to_a_million(weight: object) -> None:
    with pytest.raises(InvalidValue, match=r"cpu: .*: must be a number from 0 to 1000000"):
        Weights.of({"cpu": weight})


def test_the_largest_and_the_smallest_weight_are_allowed() -> None:
    assert Weights.of({"cpu": 10**6, "memory": 0}).micro == ((CPU, 10**12), (MEMORY, 0))


def test_one_resource_has_one_weight() -> None:
    with pytest.raises(InvalidValue, match="has a weight already"):
        Weights.of({"gpu": 1, GPU: 2})


@given(a=st.integers(0, 1 << 40), b=st.integers(0, 1 << 40), milli=st.integers(0, 10**6))
def test_property_usage_is_linear_in_cpu(a: int, b: int, milli: int) -> None:
    weights = Weights.of({"cpu": f"{milli}m"})  # to three decimals a millicore weighs whole micro-units

    def usage(cpu: int) -> int:
        return weights.usage(Resources.of({CPU: cpu}))

    assert usage(a) + usage(b) == usage(a + b)
    assert usage(a) == a * milli


@given(held=resources, micro=st.dictionaries(st.sampled_from(NAMES), st.integers(0, 10**12)))
def test_property_usage_is_within_half_a_micro_unit_per_name(held: Resources, micro: dict[str, int]) -> None:
    weights = Weights(micro=tuple(sorted(micro.items())))
    units = {CPU: 1000, GPU: 1000, MEMORY: 1 << 30, "ephemeral-storage": 1 << 30}

    exact = sum((Fraction(held.get(name) * weight, units.get(name, 1)) for name, weight in micro.items()), Fraction(0))

    assert 2 * abs(weights.usage(held) - exact) <= len(micro)
