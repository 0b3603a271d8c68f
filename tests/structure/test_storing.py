"""No object is stored in one that it stores, by however many others: who holds whom can be drawn as a tree.

What counts as stored, and what cannot be seen from the code: tests/storing.py. Bound methods and closures count, since
whoever stores `self.method` stores `self`. A class with one field for others of the same class is a tree or a chain,
and fine; with two such fields one may lead up and another down.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from textwrap import dedent

import pytest
from sources import circles, modules
from storing import Held, stored

Field = tuple[str, str]
"""A class, and the name of an attribute."""

TREES: dict[Field, str] = {
    ("muster.documents.values.List", "items"): "a document: lists and maps inside of lists",
    ("muster.model.fleet.Areas", "fleet"): "a fleet made of the one that keeps it, whose clusters are areas",
    ("muster.engine.columns.node_rooms._Parts", "floors"): "of the pools of the floor that keeps them",
}
"""Objects of these classes store others of their own class by way of another one; none of them comes to itself."""

REPORTS: dict[Field, str] = {
    ("muster.kubernetes.hands.Hands", "_settled"): "what became of an order, once the API server answers",
    ("muster.local.launching.Launcher", "_is_watched"): "that a supervisor began, once it was forked",
    ("muster.local.launching.Launcher", "_ended"): "that a supervisor ended",
}
"""Functions of the owner that are called when something happened outside the process; each says what is reported. Not
for reading values: a value is passed, or the object that has it."""

EXEMPT = TREES | REPORTS


def told(fields: Mapping[Field, Held]) -> list[str]:
    """Each circle: which fields store what of it."""
    graph: dict[str, set[str]] = {}
    for (name, _), held in fields.items():
        graph.setdefault(name, set()).update(held)
    alike: dict[str, list[str]] = {}
    for (name, attribute), held in sorted(fields.items()):
        if name in held:
            alike.setdefault(name, []).append(f"{name}.{attribute} stores {name}")
    return ["\n".join(both) for both in alike.values() if len(both) > 1] + [
        "\n".join(
            f"{name}.{attribute} stores {', '.join(sorted(inside))}"
            for (name, attribute), held in sorted(fields.items())
            if name in circle and (inside := (held & set(circle)) - {name})
        )
        for circle in circles(graph)
    ]


@pytest.fixture(scope="module")
def fields() -> dict[Field, Held]:
    return stored(modules())


def test_no_object_is_stored_in_one_that_it_stores(fields: dict[Field, Held]) -> None:
    found = told({field: held for field, held in fields.items() if field not in EXEMPT})

    assert not found, "objects store each other in circles:\n\n" + "\n\n".join(found)


@pytest.mark.parametrize("field", [pytest.param(field, id=".".join(field)) for field in EXEMPT])
def test_every_exemption_is_needed(fields: dict[Field, Held], field: Field) -> None:
    closes = f"{'.'.join(field)} stores"

    assert any(closes in it for it in told(fields)), "this field closes no circle any more: take it off the list"


IN_A = "class A:\n    def __init__(self):\n        self.b = "
KEEPS = "class B:\n    def __init__(self, a):\n        self.a = a\n"
BOTH = ["m.A.b stores m.B\nm.B.a stores m.A"]


@pytest.mark.parametrize(
    "text, expected",
    [
        pytest.param(f"{IN_A}B(self)\n{KEEPS}", BOTH, id="it is passed"),
        pytest.param(f"{IN_A}B(a=self)\n{KEEPS}", BOTH, id="it is passed by name"),
        pytest.param(f"{IN_A}[B(self) for _ in range(3)]\n{KEEPS}", BOTH, id="in a list"),
        pytest.param(f"{IN_A}B(self.f)\n    def f(self): ...\n{KEEPS}", BOTH, id="a bound method is passed"),
        pytest.param(f"{IN_A}B(lambda: self.x)\n{KEEPS}", BOTH, id="a closure is passed"),
        pytest.param(f"{IN_A}B(partial(f, self))\n{KEEPS}", BOTH, id="a partial is passed"),
        pytest.param(f"{IN_A}B(self.x)\n{KEEPS}", [], id="only a value of it is passed"),
        pytest.param(f"{IN_A}B(ref(self))\n{KEEPS}", [], id="a weak reference is passed"),
        pytest.param(
            f"{IN_A}B(1)\n        self.b.ask(self)\n{KEEPS}    def ask(self, a): ...", [], id="it is not kept"
        ),
        pytest.param(
            """
            class Asked(Protocol): ...
            class B:
                def __init__(self, asked: Asked): self.a = asked
            class A:
                def __init__(self): self.b = B(self)
            """,
            BOTH,
            id="as a protocol",
        ),
        pytest.param(
            """
            @dataclass
            class A:
                b: dict[str, "B"]
            @dataclass
            class B:
                a: A | None
            """,
            BOTH,
            id="by annotation",
        ),
        pytest.param(
            """
            class A:
                b: B
            class B:
                a: Callable[[A], int]
                kind: type[A]
                weak: ref[A]
            """,
            [],
            id="annotations that store nothing",
        ),
        pytest.param(
            """
            class A:
                def __init__(self): self.b = made(self)
            class B:
                def __init__(self): self.a: Any = None
            def made(a: A) -> B:
                b = B()
                b.a = a
                return b
            """,
            BOTH,
            id="it is set from outside",
        ),
        pytest.param(
            """
            class Base:
                def __init__(self, a: A): self.a = a
            class B(Base): ...
            class A:
                def __init__(self): self.b = B(self)
            """,
            BOTH,
            id="by inheritance",
        ),
        pytest.param(
            """
            class A:
                b: B
            class B:
                c: C
            class C:
                a: A
            """,
            ["m.A.b stores m.B\nm.B.c stores m.C\nm.C.a stores m.A"],
            id="three",
        ),
        pytest.param("class A:\n    above: A | None", [], id="its own kind"),
        pytest.param(
            "class A:\n    above: A | None\n    below: list[A]",
            ["m.A.above stores m.A\nm.A.below stores m.A"],
            id="its own kind up and down",
        ),
        pytest.param(
            """
            class Form(Protocol):
                def write(self): ...
            class Plain:
                def write(self): ...
            class Many:
                def __init__(self, of: Form): self.of = of
                def write(self): ...
            class Each:
                of: list[Form]
                def write(self): ...
            """,
            [],
            id="a tree of one protocol",
        ),
        pytest.param(
            """
            class Asked(Protocol):
                def ask(self): ...
            class B:
                a: Asked
            class A:
                b: B
                def ask(self): ...
            """,
            BOTH,
            id="a protocol that it has the methods of",
        ),
    ],
)
def test_circles_are_found(text: str, expected: list[str]) -> None:
    assert told(stored({"m": ast.parse(dedent(text))})) == expected
