"""Quantities: exact in, exact out, and nothing else gets in."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidValue, MusterError
from muster.model.quantity import LIMIT, format_units, parse, to_units

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
FACTOR = {suffix: Fraction(10) ** power for suffix, power in DECIMAL.items()} | {
    suffix: Fraction(2) ** power for suffix, power in BINARY.items()
}


@pytest.mark.parametrize(
    "text, value",
    [
        pytest.param("0", 0, id="zero"),
        pytest.param("007", 7, id="leading zeros mean nothing"),
        pytest.param("+3", 3, id="a plus sign is allowed"),
        pytest.param("-0", 0, id="minus zero is zero"),
        pytest.param(".5", Fraction(1, 2), id="the whole part may be missing"),
        pytest.param("5.", 5, id="the decimals may be missing"),
        pytest.param("1.G", 10**9, id="so may they before a suffix"),
        pytest.param("100m", Fraction(1, 10), id="milli"),
        pytest.param("1.5Gi", 3 << 29, id="binary suffixes take fractions"),
        pytest.param("0.1n", Fraction(1, 10**10), id="finer than nano is kept"),
        pytest.param("12e6", 12_000_000, id="small e is an exponent"),
        pytest.param("1E3", 1000, id="capital E with digits is an exponent"),
        pytest.param("1E+3", 1000, id="the exponent may have a plus"),
        pytest.param("5e-1", Fraction(1, 2), id="the exponent may be negative"),
        pytest.param("1E", 10**18, id="capital E alone is exa"),
        pytest.param("1Ei", 1 << 60, id="Ei is exbi"),
        pytest.param(3, 3, id="an integer is itself"),
        pytest.param(0.1, Fraction(1, 10), id="YAML's 0.1 is one tenth"),
        pytest.param(1e16, 10**16, id="a float that prints with an exponent"),
        pytest.param(1e-7, Fraction(1, 10**7), id="a float that prints with a negative exponent"),
        pytest.param(Decimal("1E+3"), 1000, id="a Decimal with an exponent"),
        pytest.param(Decimal("0.30"), Fraction(3, 10), id="a Decimal"),
        pytest.param(2**63 - 1, 2**63 - 1, id="the largest value"),
    ],
)
def test_a_quantity_has_one_exact_value(text: object, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("+", id="a sign alone"),
        pytest.param(".", id="a point alone"),
        pytest.param("Ki", id="a suffix alone"),
        pytest.param("-1", id="negative text"),
        pytest.param(-1, id="negative integer"),
        pytest.param(-0.5, id="negative float"),
        pytest.param("1e", id="e without digits"),
        pytest.param("1e+", id="e with a sign only"),
        pytest.param("1e1.5", id="a fractional exponent"),
        pytest.param("1ki", id="binary kilo is Ki"),
        pytest.param("1K", id="decimal kilo is k"),
        pytest.param("1g", id="giga is G"),
        pytest.param("1GB", id="bytes are not named"),
        pytest.param("1mi", id="there is no small mebi"),
        pytest.param("1ni", id="there is no binary nano"),
        pytest.param("1_000", id="underscores"),
        pytest.param("1,5", id="a comma"),
        pytest.param(" 1", id="a space before"),
        pytest.param("1 Gi", id="a space inside"),
        pytest.param("1\n", id="a line end after"),
        pytest.param("--1", id="two signs"),
        pytest.param("1.2.3", id="two points"),
        pytest.param("١", id="an Arabic digit"),
        pytest.param("１", id="a wide digit"),
        pytest.param("²", id="a superscript digit"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("nan", id="nan as text"),
        pytest.param("inf", id="inf as text"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param(Decimal("NaN"), id="Decimal nan"),
        pytest.param(Decimal("-Infinity"), id="Decimal infinity"),
        pytest.param(True, id="a YAML boolean"),
        pytest.param(None, id="nothing"),
        pytest.param([1], id="a list"),
        pytest.param(b"1", id="bytes"),
        pytest.param("1" * 65, id="longer than any real quantity"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_is_allowed(text: object) -> None:
    with pytest.raises(InvalidValue, match="must be a quantity: a number of zero or more") as refused:
        parse(text)

    assert refused.value.value is text


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9223372036854775808", id="2^63 in full"),
        pytest.param(2**63, id="2^63 as an integer"),
        pytest.param("8Ei", id="2^63 in exbi, which Kubernetes caps"),
        pytest.param("10E", id="ten exa"),
        pytest.param("1e19", id="by exponent"),
        pytest.param(1e300, id="a large float"),
        pytest.param("1e999999999", id="an exponent that must not be computed"),
        pytest.param(Decimal("1e999999"), id="a Decimal that must not be computed"),
        pytest.param(1 << 100_000, id="an integer that Python will not print"),
    ],
)
def test_2_to_the_63_overflows(text: object) -> None:
    with pytest.raises(InvalidValue, match=r"overflow: quantities must be below 2\^63"):
        parse(text)


@pytest.mark.parametrize("text", ["1e-999999999", 5e-324], ids=["as text", "as a float"])
def test_an_exponent_that_is_too_small_is_refused_before_computing(text: object) -> None:
    with pytest.raises(InvalidValue, match="too small: the exponent must be at least -100"):
        parse(text)


@pytest.mark.parametrize(
    "text, per, units",
    [
        pytest.param("1k", 1000, 1_000_000, id="EDL-Q1 a thousand cores in milli"),
        pytest.param("100Mi", 1, 104_857_600, id="EDL-Q1 a hundred mebibytes"),
        pytest.param("0.1m", 1000, 1, id="a tenth of a milli rounds up"),
        pytest.param("1n", 1, 1, id="a nano of a byte rounds up"),
        pytest.param("1.0001", 1000, 1001, id="rounding is up, not to nearest"),
        pytest.param(0.1, 1000, 100, id="a float is not a hair more"),
        pytest.param("0", 1000, 0, id="nothing stays nothing"),
        pytest.param("9223372036854775807", 1, 2**63 - 1, id="the most units"),
    ],
)
def test_units_round_up(text: object, per: int, units: int) -> None:
    assert to_units(text, per=per) == units


@pytest.mark.parametrize(
    "text, per",
    [
        pytest.param("9223372036854775807.5", 1, id="rounding up reaches 2^63"),
        pytest.param("1E", 1000, id="an exa of milli"),
    ],
)
def test_units_overflow_too(text: str, per: int) -> None:
    with pytest.raises(InvalidValue, match="overflow"):
        to_units(text, per=per)


@pytest.mark.parametrize(
    "units, per, binary, text",
    [
        pytest.param(0, 1, False, "0", id="zero"),
        pytest.param(1500, 1000, False, "1500m", id="a core and a half has no fraction"),
        pytest.param(2000, 1000, False, "2", id="two cores"),
        pytest.param(1_000_000, 1000, False, "1k", id="a thousand cores take the largest suffix"),
        pytest.param(100, 1, False, "100", id="pieces"),
        pytest.param(4 << 30, 1, True, "4Gi", id="four gibibytes"),
        pytest.param(3 << 29, 1, True, "1536Mi", id="a gibibyte and a half has no fraction"),
        pytest.param(1025, 1, True, "1025", id="no binary suffix divides it"),
        pytest.param(100, 1, True, "100", id="below 1024 there is no binary suffix"),
        pytest.param(1000, 1, True, "1k", id="below 1024 Kubernetes turns to decimal"),
        pytest.param(4 << 30, 1, False, "4294967296", id="decimal unless asked"),
        pytest.param(1_500_000, 1000, True, "1500", id="binary of whole cores: 1500 is no multiple of 1024"),
        pytest.param(2_048_000, 1000, True, "2Ki", id="binary of whole cores"),
        pytest.param(2_048_001, 1000, True, "2048001m", id="binary never rounds"),
        pytest.param(7, 10**9, False, "7n", id="nano"),
    ],
)
def test_canonical_form(units: int, per: int, binary: bool, text: str) -> None:
    assert format_units(units, per=per, binary=binary) == text


@pytest.mark.parametrize(
    "units, per",
    [pytest.param(-1, 1, id="negative"), pytest.param(2**63, 1, id="too many"), pytest.param(1, 7, id="per")],
)
def test_what_has_no_canonical_form_is_refused(units: int, per: int) -> None:
    with pytest.raises(InvalidValue):
        format_units(units, per=per)


def test_an_error_says_where_what_and_what_is_allowed() -> None:
    error = InvalidValue("x", "must be y", "b[0]").inside("a")

    assert str(error) == "a.b[0]: 'x': must be y"
    assert isinstance(error, MusterError)
    assert isinstance(error, ValueError)


def test_an_error_shortens_what_it_repeats() -> None:
    assert len(str(InvalidValue("x" * 10_000, "no"))) < 100
    assert str(InvalidValue(1 << 100_000, "no")) == "a number too long to print: no"


@given(
    whole=st.integers(0, 10**6),
    part=st.text("0123456789", max_size=6),
    point=st.booleans(),
    plus=st.sampled_from(["", "+"]),
    suffix=st.sampled_from(sorted(FACTOR)),
)
def test_property_parsing_is_exact(whole: int, part: str, point: bool, plus: str, suffix: str) -> None:
    number = f"{whole}.{part}" if point else str(whole)
    expected = Fraction(f"{whole}.{part or 0}" if point else whole) * FACTOR[suffix]
    text = f"{plus}{number}{suffix}"

    if expected < LIMIT:
        assert parse(text) == expected
    else:
        with pytest.raises(InvalidValue, match="overflow"):
            parse(text)


@given(mantissa=st.integers(0, 10**6), exponent=st.integers(-100, 12), e=st.sampled_from("eE"))
def test_property_exponents_are_exact(mantissa: int, exponent: int, e: str) -> None:
    assert parse(f"{mantissa}{e}{exponent}") == mantissa * Fraction(10) ** exponent


@given(st.just(0.0) | st.floats(min_value=1e-100, max_value=9e18))
def test_property_floats_mean_their_shortest_text(value: float) -> None:
    assert parse(value) == Fraction(repr(value))


@given(
    units=st.integers(0, LIMIT - 1)
    | st.builds(lambda n, f: int(n * f), st.integers(1, 7), st.sampled_from(list(FACTOR.values()))),
    per=st.sampled_from([1, 10**3, 10**6, 10**9]),
    binary=st.booleans(),
)
def test_property_the_canonical_form_parses_back(units: int, per: int, binary: bool) -> None:
    assert to_units(format_units(units, per=per, binary=binary), per=per) == units


@pytest.mark.parametrize("suffix", [pytest.param(s, id=f"suffix {s or 'none'}") for s in FACTOR])
@given(number=st.integers(1, 999))
def test_property_every_suffix_round_trips(suffix: str, number: int) -> None:
    nano = FACTOR[suffix] * number * 10**9
    if nano >= LIMIT:
        number, nano = 1, FACTOR[suffix]  # the suffixes from giga up have no room for nano
        per = 1
    else:
        per = 10**9
    text = f"{number}{suffix}"

    units = to_units(text, per=per)

    assert units == nano
    assert parse(format_units(units, per=per, binary=suffix in BINARY)) == parse(text)


@given(st.text(max_size=12) | st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_property_any_text_parses_or_is_invalid(text: str) -> None:
    try:
        value = parse(text)
    except InvalidValue:
        return
    assert 0 <= value < LIMIT
