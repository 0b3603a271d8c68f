"""The source as a graph: which modules there are, which imports which, and what goes round in circles."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import muster

SOURCE = Path(muster.__file__).parent


def modules(root: Path = SOURCE) -> dict[str, ast.Module]:
    """The modules of a package, by full name."""
    return {_name(root, path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.py"))}


def _name(root: Path, path: Path) -> str:
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which of these modules each of them imports, wherever in it: inside functions and for type checkers too."""
    return {name: {other for other in _imported(tree, trees) if other != name} for name, tree in trees.items()}


def _imported(tree: ast.Module, known: Collection[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports say the full name"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from [name for name in (whole, str(node.module)) if name in known][:1]


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The parts of a graph, of two members or more, from each of which one comes to each: in order of name."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        """Tarjan's search, from here on."""
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            place = stack.index(name)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found)
