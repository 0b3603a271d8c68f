"""Labels: which nodes a selector, an affinity and tolerations admit, and which shapes are refused."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidValue
from muster.model.labels import (
    ANYWHERE,
    EFFECTS,
    OPERATORS,
    Constraint,
    Expression,
    NodeAffinity,
    Taint,
    Term,
    Toleration,
    parse_selector,
    parse_tolerations,
    tolerates,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERMS = f"nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def required(*terms: object) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expressions(*items: object) -> dict[str, Any]:
    return {"matchExpressions": list(items)}


def demand(key: str, operator: str, *values: object) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


# --- taints and tolerations


@pytest.mark.parametrize(
    "text, taint",
    [
        pytest.param("gpu=yes:NoSchedule", ("gpu", "yes", "NoSchedule"), id="key, value and effect"),
        pytest.param("gone:NoExecute", ("gone", "", "NoExecute"), id="no value"),
        pytest.param("a.b/c=:PreferNoSchedule", ("a.b/c", "", "PreferNoSchedule"), id="an empty value and a domain"),
    ],
)
def test_a_taint_is_read_as_kubectl_writes_it(text: str, taint: tuple[str, str, str]) -> None:
    parsed = Taint.parse(text)

    assert (parsed.key, parsed.value, parsed.effect) == taint
    assert Taint.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("gpu", id="no effect"),
        pytest.param("gpu=yes", id="value but no effect"),
        pytest.param("gpu:noschedule", id="an effect in small letters"),
        pytest.param("gpu:NoSchedule:", id="two colons"),
        pytest.param(":NoSchedule", id="no key"),
        pytest.param("=yes:NoSchedule", id="a value without a key"),
        pytest.param("a=b=c:NoSchedule", id="two equal signs"),
        pytest.param("a b=c:NoSchedule", id="a space in the key"),
        pytest.param("", id="empty"),
        pytest.param({"key": "gpu"}, id="a mapping"),
    ],
)
def test_a_malformed_taint_is_refused(text: object) -> None:
    with pytest.raises(InvalidValue):
        Taint.parse(text)


@pytest.mark.parametrize(
    "toleration, taint, tolerated",
    [
        pytest.param({"key": "k", "value": "v"}, "k=v:NoSchedule", True, id="Equal is the default operator"),
        pytest.param({"key": "k", "operator": "Equal", "value": "w"}, "k=v:NoSchedule", False, id="another value"),
        pytest.param({"key": "k"}, "k:NoSchedule", True, id="no value equals no value"),
        pytest.param({"key": "k"}, "k=v:NoSchedule", False, id="no value is not any value"),
        pytest.param({"key": "k", "operator": "Exists"}, "k=v:NoSchedule", True, id="Exists is any value"),
        pytest.param({"key": "j", "operator": "Exists"}, "k=v:NoSchedule", False, id="Exists of another key"),
        pytest.param({"operator": "Exists"}, "k=v:NoExecute", True, id="Exists without key is everything"),
        pytest.param({"operator": "Exists", "effect": "NoExecute"}, "k:NoSchedule", False, id="of one effect only"),
        pytest.param({"key": "k", "effect": "NoSchedule"}, "k:NoExecute", False, id="another effect"),
        pytest.param({"key": "k", "effect": "NoSchedule"}, "k:NoSchedule", True, id="the same effect"),
        pytest.param({"key": "k", "effect": ""}, "k:NoExecute", True, id="an empty effect is every effect"),
        pytest.param({"key": "k", "operator": None, "value": None}, "k:NoExecute", True, id="null is left out"),
        pytest.param(
            {"key": "k", "effect": "NoExecute", "tolerationSeconds": 300}, "k:NoExecute", True, id="for some seconds"
        ),
    ],
)
def test_toleration(toleration: dict[str, object], taint: str, tolerated: bool) -> None:
    assert Toleration.parse(toleration).tolerates(Taint.parse(taint)) is tolerated


@pytest.mark.parametrize(
    "toleration, message",
    [
        pytest.param(
            {"key": "k", "operator": "Gt", "value": "5"},
            "tolerations[0].operator: 'Gt': numeric tolerations are not supported: use Equal or Exists",
            id="numeric comparison is not supported",
        ),
        pytest.param(
            {"key": "k", "operator": "In"},
            "tolerations[0].operator: 'In': must be Equal or Exists",
            id="an operator of expressions",
        ),
        pytest.param(
            {"value": "v"},
            "tolerations[0].operator: 'Equal': must be Exists when key is empty, which tolerates everything",
            id="no key needs Exists",
        ),
        pytest.param(
            {"key": "k", "operator": "Exists", "value": "v"},
            "tolerations[0].value: 'v': must be empty when operator is Exists",
            id="Exists takes no value",
        ),
        pytest.param(
            {"key": "k", "effect": "Never"},
            "tolerations[0].effect: 'Never': must be empty or one of NoSchedule, PreferNoSchedule, NoExecute",
            id="an unknown effect",
        ),
        pytest.param(
            {"key": "k", "effect": "NoSchedule", "tolerationSeconds": 5},
            "tolerations[0].effect: 'NoSchedule': must be NoExecute when tolerationSeconds is set",
            id="seconds are for NoExecute",
        ),
        pytest.param(
            {"key": "k", "effect": "NoExecute", "tolerationSeconds": "5"},
            "tolerations[0].tolerationSeconds: '5': must be a whole number of seconds",
            id="seconds are a number",
        ),
        pytest.param(
            {"key": "k", "value": True},
            "tolerations[0].value: True: must be a string: put quotes around it",
            id="a bare yes is a boolean",
        ),
        pytest.param(
            {"key": "k", "valeu": "v"},
            "tolerations[0].valeu: 'valeu': unknown field: must be one of "
            "key, operator, value, effect, tolerationSeconds",
            id="a misspelt field",
        ),
        pytest.param("k", "tolerations[0]: 'k': must be a mapping", id="not a mapping"),
    ],
)
def test_a_malformed_toleration_is_refused_by_field(toleration: object, message: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Constraint.parse(tolerations=[toleration])

    assert str(refused.value) == message


@pytest.mark.parametrize(
    "taints, tolerations, left",
    [
        pytest.param([], [], None, id="no taints"),
        pytest.param(["a:NoSchedule"], [], "a:NoSchedule", id="nobody tolerates it"),
        pytest.param(["a:PreferNoSchedule"], [], None, id="a soft taint forbids nothing"),
        pytest.param(["a:NoSchedule", "b:NoExecute"], [{"key": "a"}], "b:NoExecute", id="one of two is tolerated"),
        pytest.param(["b:NoExecute", "a:NoSchedule"], [], "b:NoExecute", id="the first is named"),
        pytest.param(["a:NoSchedule", "b:NoExecute"], [{"key": "a"}, {"key": "b"}], None, id="each by its own"),
        pytest.param(["a:NoSchedule", "b=c:NoExecute"], [{"operator": "Exists"}], None, id="all by one"),
    ],
)
def test_the_first_hard_taint_nobody_tolerates(taints: list[str], tolerations: list[object], left: str | None) -> None:
    found = tolerates([Taint.parse(text) for text in taints], parse_tolerations(tolerations))

    assert (found and str(found)) == left


# --- expressions, terms, affinity


@pytest.mark.parametrize(
    "operator, values, value, admitted",
    [
        pytest.param("In", ["a", "b"], "b", True, id="In the list"),
        pytest.param("In", ["a", "b"], "c", False, id="In, but another value"),
        pytest.param("In", [""], None, False, id="In needs the label, even for the empty value"),
        pytest.param("In", [""], "", True, id="In the empty value"),
        pytest.param("NotIn", ["a"], "b", True, id="NotIn the list"),
        pytest.param("NotIn", ["a"], "a", False, id="NotIn, but listed"),
        pytest.param("NotIn", ["a"], None, True, id="NotIn admits a node without the label"),
        pytest.param("Exists", [], "", True, id="Exists with an empty value"),
        pytest.param("Exists", [], None, False, id="Exists needs the label"),
        pytest.param("DoesNotExist", [], None, True, id="DoesNotExist without the label"),
        pytest.param("DoesNotExist", [], "a", False, id="DoesNotExist with the label"),
        pytest.param("Gt", ["5"], "6", True, id="Gt more"),
        pytest.param("Gt", ["5"], "5", False, id="Gt the same"),
        pytest.param("Gt", ["5"], "10", True, id="Gt compares numbers, not text"),
        pytest.param("Gt", ["5"], None, False, id="Gt needs the label"),
        pytest.param("Gt", ["5"], "many", False, id="Gt needs an integer"),
        pytest.param("Gt", ["5"], "6.5", False, id="Gt takes no fraction"),
        pytest.param("Gt", ["5"], "1_000", False, id="Gt takes no underscores"),
        pytest.param("Gt", ["5"], "٦", False, id="Gt takes no foreign digits"),
        pytest.param("Gt", ["5"], "9223372036854775808", False, id="Gt ends where int64 does"),
        pytest.param("Gt", ["5"], "9" * 5000, False, id="Gt is not hurt by an endless label"),
        pytest.param("Lt", ["5"], "4", True, id="Lt less"),
        pytest.param("Lt", ["5"], "-4", True, id="Lt a negative label"),
        pytest.param("Lt", ["5"], "5", False, id="Lt the same"),
        pytest.param("Lt", ["5"], None, False, id="Lt needs the label"),
    ],
)
def test_expression(operator: str, values: list[str], value: str | None, admitted: bool) -> None:
    assert Expression.parse(demand("k", operator, *values)).admits(value) is admitted


@pytest.mark.parametrize(
    "terms, admitted",
    [
        pytest.param([expressions(demand("zone", "In", "z1"))], True, id="one term"),
        pytest.param([expressions(demand("zone", "In", "z2"))], False, id="another zone"),
        pytest.param([expressions(demand("zone", "Exists"), demand("arm", "Exists"))], False, id="demands are ANDed"),
        pytest.param(
            [expressions(demand("arm", "Exists")), expressions(demand("zone", "Exists"))], True, id="terms are ORed"
        ),
        pytest.param([{}], False, id="an empty term matches nothing"),
        pytest.param([None], False, id="so does a null term"),
        pytest.param([{"matchExpressions": [], "matchFields": []}], False, id="so do empty lists"),
        pytest.param([{}, expressions(demand("zone", "Exists"))], True, id="an empty term beside one that matches"),
        pytest.param([{"matchFields": [demand("metadata.name", "In", "n1")]}], True, id="by name"),
        pytest.param([{"matchFields": [demand("metadata.name", "NotIn", "n1")]}], False, id="not by name"),
        pytest.param(
            [{"matchFields": [demand("metadata.name", "In", "n1")]} | expressions(demand("arm", "Exists"))],
            False,
            id="fields and expressions are ANDed",
        ),
    ],
)
def test_affinity(terms: list[object], admitted: bool) -> None:
    affinity = NodeAffinity.parse(required(*terms))

    assert affinity is not None
    assert affinity.matches("n1", {"zone": "z1"}) is admitted


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(None, id="null"),
        pytest.param({}, id="empty"),
        pytest.param({"nodeAffinity": None}, id="null node affinity"),
        pytest.param({"nodeAffinity": {}}, id="empty node affinity"),
        pytest.param({"nodeAffinity": {REQUIRED: None, PREFERRED: []}}, id="node affinity without wishes"),
        pytest.param({"podAffinity": {}, "podAntiAffinity": None}, id="pod affinity without wishes"),
    ],
)
def test_an_affinity_that_demands_nothing_is_none(shape: object) -> None:
    assert NodeAffinity.parse(shape) is None


@pytest.mark.parametrize(
    "shape, field",
    [
        pytest.param({"nodeAffinity": {PREFERRED: [{"weight": 1}]}}, f"nodeAffinity.{PREFERRED}", id="preferred"),
        pytest.param({"podAffinity": {REQUIRED: []}}, "podAffinity", id="pod affinity"),
        pytest.param(required({}) | {"podAntiAffinity": {PREFERRED: []}}, "podAntiAffinity", id="pod anti-affinity"),
    ],
)
def test_wishes_that_would_be_ignored_are_refused(shape: object, field: str) -> None:
    with pytest.raises(InvalidValue, match="only required node affinity is honoured") as refused:
        NodeAffinity.parse(shape)

    assert refused.value.field == field
    assert field.rpartition(".")[2] in refused.value.allowed


@pytest.mark.parametrize(
    "shape, field, allowed",
    [
        pytest.param(
            required(expressions(demand("a", "Exists"), demand("b", "Equals", "c"))),
            f"{TERMS}[0].matchExpressions[1].operator",
            "must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            id="an unknown operator",
        ),
        pytest.param(
            required(expressions({"key": "a"})),
            f"{TERMS}[0].matchExpressions[0].operator",
            "must be one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
            id="no operator",
        ),
        pytest.param(
            required({}, expressions(demand("a", "In"))),
            f"{TERMS}[1].matchExpressions[0].values",
            "must have at least one value when operator is In",
            id="In without values",
        ),
        pytest.param(
            required(expressions(demand("a", "Exists", "b"))),
            f"{TERMS}[0].matchExpressions[0].values",
            "must be empty when operator is Exists",
            id="Exists with values",
        ),
        pytest.param(
            required(expressions(demand("a", "Gt", "1", "2"))),
            f"{TERMS}[0].matchExpressions[0].values",
            "must be exactly one integer when operator is Gt",
            id="Gt with two values",
        ),
        pytest.param(
            required(expressions(demand("a", "Lt", "few"))),
            f"{TERMS}[0].matchExpressions[0].values[0]",
            "must be an integer when operator is Lt",
            id="Lt of a word",
        ),
        pytest.param(
            required(expressions(demand("a", "Gt", 4))),
            f"{TERMS}[0].matchExpressions[0].values[0]",
            "must be a string: put quotes around it",
            id="a bare number",
        ),
        pytest.param(
            required(expressions(demand("a", "In", "b", True))),
            f"{TERMS}[0].matchExpressions[0].values[1]",
            "must be a string: put quotes around it",
            id="a bare yes",
        ),
        pytest.param(
            required(expressions(demand("a", "In", None))),
            f"{TERMS}[0].matchExpressions[0].values[0]",
            "must be a string",
            id="a null value",
        ),
        pytest.param(
            required(expressions(demand("a", "In", "-b"))),
            f"{TERMS}[0].matchExpressions[0].values[0]",
            "must be a label value",
            id="a value no label can have",
        ),
        pytest.param(
            required(expressions(demand("", "Exists"))),
            f"{TERMS}[0].matchExpressions[0].key",
            "must be a label key",
            id="no key",
        ),
        pytest.param(
            required(expressions({"key": "a", "operator": "In", "values": "b"})),
            f"{TERMS}[0].matchExpressions[0].values",
            "must be a list",
            id="a value without brackets",
        ),
        pytest.param(
            required({"matchFields": [demand("metadata.uid", "In", "n")]}),
            f"{TERMS}[0].matchFields[0].key",
            "must be metadata.name",
            id="another field than the name",
        ),
        pytest.param(
            required({"matchFields": [demand("metadata.name", "Exists")]}),
            f"{TERMS}[0].matchFields[0].operator",
            "must be In or NotIn",
            id="the name always exists",
        ),
        pytest.param(
            required({"matchFields": [demand("metadata.name", "In", "n", "m")]}),
            f"{TERMS}[0].matchFields[0].values",
            "must be exactly one node name",
            id="two names in one demand",
        ),
        pytest.param(
            required({"matchLabels": {"a": "b"}}),
            f"{TERMS}[0].matchLabels",
            "unknown field: must be one of matchExpressions, matchFields",
            id="matchLabels is for pods",
        ),
        pytest.param(required(), TERMS, "must have at least one term", id="no terms"),
        pytest.param(
            {"nodeAffinity": {REQUIRED: {}}}, TERMS, "must have at least one term", id="no list of terms either"
        ),
        pytest.param(
            {"nodeAffinity": {"required": {}}}, "nodeAffinity.required", "unknown field", id="an abbreviated field"
        ),
        pytest.param({"affinity": {}}, "affinity", "unknown field", id="one level too many"),
        pytest.param([], "", "must be a mapping", id="a list"),
    ],
)
def test_a_malformed_affinity_is_refused_by_field(shape: object, field: str, allowed: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        NodeAffinity.parse(shape)
    with pytest.raises(InvalidValue) as outer:
        Constraint.parse(affinity=shape)

    assert refused.value.field == field
    assert refused.value.allowed.startswith(allowed)
    assert outer.value.field == f"affinity.{field}".rstrip(".")


# --- selectors and constraints


@pytest.mark.parametrize(
    "selector, field, allowed",
    [
        pytest.param({"a": 1}, "nodeSelector.a", "must be a string: put quotes around it", id="a bare number"),
        pytest.param({"a": True}, "nodeSelector.a", "must be a string: put quotes around it", id="a bare yes"),
        pytest.param({"a": None}, "nodeSelector.a", "must be a string", id="a null value"),
        pytest.param({True: "a"}, "nodeSelector", "must be a string: put quotes around it", id="a bare on as key"),
        pytest.param({"a": "b c"}, "nodeSelector.a", "must be a label value", id="a space"),
        pytest.param({"a": "b" * 64}, "nodeSelector.a", "must be a label value", id="a value too long"),
        pytest.param({"a" * 64: ""}, "nodeSelector", "must be a label key", id="a key too long"),
        pytest.param({"A.b/c": ""}, "nodeSelector", "must be a label key", id="a domain in capitals"),
        pytest.param({"/c": ""}, "nodeSelector", "must be a label key", id="an empty domain"),
        pytest.param({"a/b/c": ""}, "nodeSelector", "must be a label key", id="two domains"),
        pytest.param({"a\n": ""}, "nodeSelector", "must be a label key", id="a line end"),
        pytest.param(["a"], "nodeSelector", "must be a mapping", id="a list"),
    ],
)
def test_a_malformed_selector_is_refused_by_key(selector: object, field: str, allowed: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        Constraint.parse(selector=selector)

    assert refused.value.field == field
    assert refused.value.allowed.startswith(allowed)


def test_a_selector_is_kept_in_order_of_key() -> None:
    assert parse_selector({"b": "2", "example.com/a_A.a": "", "a": "1"}) == (
        ("a", "1"),
        ("b", "2"),
        ("example.com/a_A.a", ""),
    )
    assert parse_selector(None) == ()


@pytest.mark.parametrize(
    "labels, taints, refuses",
    [
        pytest.param({"pool": "a", "zone": "z1"}, [], None, id="admitted"),
        pytest.param({"pool": "b", "zone": "z1"}, [], "nodeSelector", id="the selector refuses"),
        pytest.param({"zone": "z1"}, [], "nodeSelector", id="a missing label refuses"),
        pytest.param({"pool": "a", "zone": "z2"}, [], "affinity", id="the affinity refuses"),
        pytest.param({"pool": "a", "zone": "z1"}, ["x:NoSchedule"], "taint", id="a taint refuses"),
        pytest.param({"pool": "a", "zone": "z1"}, ["gpu=yes:NoSchedule"], None, id="a tolerated taint"),
        pytest.param({"pool": "a", "zone": "z1"}, ["x:PreferNoSchedule"], None, id="a soft taint"),
        pytest.param({}, ["x:NoSchedule"], "nodeSelector", id="the selector is asked first"),
    ],
)
def test_a_constraint_says_what_refuses_the_node(
    labels: dict[str, str], taints: list[str], refuses: str | None
) -> None:
    constraint = Constraint.parse(
        selector={"pool": "a"},
        affinity=required(expressions(demand("zone", "In", "z1"))),
        tolerations=[{"key": "gpu", "operator": "Exists"}],
    )

    assert constraint.refuses("n1", labels, [Taint.parse(text) for text in taints]) == refuses


def test_anywhere_is_anywhere_but_behind_a_taint() -> None:
    assert Constraint.parse() == ANYWHERE
    assert Constraint.parse(selector={}, affinity={}, tolerations=[]) == ANYWHERE
    assert ANYWHERE.refuses("n1", {}, []) is None
    assert ANYWHERE.refuses("n1", {}, [Taint.parse("a:NoExecute")]) == "taint"


def test_an_empty_value_needs_the_label() -> None:
    constraint = Constraint.parse(selector={"spot": ""})

    assert constraint.refuses("n1", {"spot": ""}, []) is None
    assert constraint.refuses("n1", {}, []) == "nodeSelector"


def test_equal_constraints_are_one_key_however_written() -> None:
    one = Constraint.parse(selector={"a": "1", "b": "2"}, affinity=required(expressions(demand("c", "In", "x", "y"))))
    other = Constraint.parse(selector={"b": "2", "a": "1"}, affinity=required(expressions(demand("c", "In", "y", "x"))))

    assert one == other
    assert hash(one) == hash(other)
    assert one != ANYWHERE


def test_constraints_survive_copying_and_another_process() -> None:
    constraint = Constraint.parse(selector={"a": "1"}, tolerations=[{"operator": "Exists"}])
    script = (
        "import pickle, sys; from muster.model.labels import Constraint; "
        "parsed = Constraint.parse(selector={'a': '1'}, tolerations=[{'operator': 'Exists'}]); "
        "sys.exit(hash(pickle.loads(sys.stdin.buffer.read())) != hash(parsed))"
    )

    assert copy.deepcopy(constraint) == constraint
    subprocess.run([sys.executable, "-c", script], input=pickle.dumps(constraint), check=True, timeout=60)


words = st.sampled_from(["a", "b", "c", "1", "2", "10"])
node_labels = st.dictionaries(words, words)
some_taints = st.lists(st.builds(Taint, key=words, value=words, effect=st.sampled_from(EFFECTS)))


@given(key=words, values=st.lists(words, min_size=1), labels=node_labels)
def test_property_not_in_is_the_opposite_of_in(key: str, values: list[str], labels: dict[str, str]) -> None:
    value = labels.get(key)

    assert Expression.parse(demand(key, "In", *values)).admits(value) is not Expression.parse(
        demand(key, "NotIn", *values)
    ).admits(value)
    assert Expression.parse(demand(key, "Exists")).admits(value) is (key in labels)
    assert Expression.parse(demand(key, "DoesNotExist")).admits(value) is (key not in labels)


@given(bound=st.integers(0, 2**63 - 1), label=st.integers(-(2**63), 2**63 - 1))
def test_property_gt_and_lt_compare_integers(bound: int, label: int) -> None:
    assert Expression.parse(demand("k", "Gt", str(bound))).admits(str(label)) is (label > bound)
    assert Expression.parse(demand("k", "Lt", str(bound))).admits(str(label)) is (label < bound)


@given(taints=some_taints)
def test_property_exists_without_key_tolerates_every_taint(taints: list[Taint]) -> None:
    assert tolerates(taints, [Toleration(operator="Exists")]) is None


@given(taints=some_taints)
def test_property_tolerating_each_taint_exactly_tolerates_all(taints: list[Taint]) -> None:
    exact = [Toleration(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints]

    assert tolerates(taints, exact) is None
    assert tolerates(taints, []) == next((taint for taint in taints if taint.effect != "PreferNoSchedule"), None)


@given(terms=st.lists(st.lists(st.tuples(words, st.sampled_from(OPERATORS[:4])), max_size=3)), labels=node_labels)
def test_property_terms_are_ored_and_demands_anded(terms: list[list[tuple[str, str]]], labels: dict[str, str]) -> None:
    parsed = [
        tuple(
            Expression(key=key, operator=operator, values=("a",) if "In" in operator else ()) for key, operator in term
        )
        for term in terms
    ]
    affinity = NodeAffinity(terms=tuple(Term(expressions=term) for term in parsed))

    assert affinity.matches("n", labels) is any(
        bool(term) and all(demand.admits(labels.get(demand.key)) for demand in term) for term in parsed
    )


FIELDS = ["nodeAffinity", "podAffinity", REQUIRED, PREFERRED, "nodeSelectorTerms", "matchExpressions", "matchFields"]
FIELDS += ["key", "operator", "values", "value", "effect", "a"]
shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(OPERATORS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(shape=shapes)
def test_property_any_shape_parses_or_is_invalid(shape: object) -> None:
    for form in ({"selector": shape}, {"affinity": shape}, {"tolerations": shape}, {"tolerations": [shape]}):
        with contextlib.suppress(InvalidValue):
            hash(Constraint.parse(**form))
