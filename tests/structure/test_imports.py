"""No module imports one that imports it, by however many others; import-linter holds the layers (pyproject.toml)."""

from __future__ import annotations

import ast

import pytest
from sources import circles, imports, modules

A, B, C = "import p.b", "from p import c", "from p.a import x"


def told(graph: dict[str, set[str]]) -> list[str]:
    """Each circle: who is in it, and what each imports of it."""
    return [
        "\n".join(f"{name} -> {', '.join(sorted(graph[name] & set(circle)))}" for name in circle)
        for circle in circles(graph)
    ]


def test_no_modules_import_each_other() -> None:
    found = told(imports(modules()))

    assert not found, "modules import each other in circles:\n\n" + "\n\n".join(found)


@pytest.mark.parametrize(
    "files, expected",
    [
        pytest.param({"p.a": A, "p.b": ""}, [], id="one way"),
        pytest.param({"p.a": A, "p.b": C}, ["p.a -> p.b\np.b -> p.a"], id="two"),
        pytest.param({"p.a": A, "p.b": B, "p.c": C}, ["p.a -> p.b\np.b -> p.c\np.c -> p.a"], id="three"),
        pytest.param({"p.a": A, "p.b": f"def f():\n    {C}"}, ["p.a -> p.b\np.b -> p.a"], id="inside a function"),
        pytest.param({"p.a": A, "p.b": f"if TYPE_CHECKING:\n    {C}"}, ["p.a -> p.b\np.b -> p.a"], id="for types only"),
        pytest.param({"p.a": "import p.a, q.b"}, [], id="of others"),
    ],
)
def test_circles_are_found(files: dict[str, str], expected: list[str]) -> None:
    assert told(imports({name: ast.parse(text) for name, text in files.items()})) == expected
