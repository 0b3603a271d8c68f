"""Which classes of a source tree store which, read from the code: annotations, constructor calls, assignments.

A field of a class stores

* every class of the tree that its annotation names: `dict[str, Job]` stores Job; `type[Job]` and `ref[Job]` do not;
* where the annotation leaves open what comes (a Callable, Any, a type variable), or names a base class or a Protocol,
  or where there is none: what is assigned to it.

An argument of a constructor call is followed into the field that keeps it, so `self.b = B(self)` is found where B takes
a Protocol too. A bound method stores its object; a lambda, a `partial` or an inner function what it reads from around
it.

This reads code, it does not run it. What it cannot resolve counts as nothing: results of functions without a class of
the tree in their annotation, what a `list[Any]` holds, what others call back with. A lazy sequence (`Made`) counts as
what its field's annotation says. A field of a Protocol stores every class that has its methods; but where the class
itself has them too, as forms that are made of forms, what it stores is a tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef
Held = frozenset[str]
"""Full names of the classes that a value is, or holds."""

NOTHING: Held = frozenset()
_WEAK = {"ref", "proxy", "WeakMethod", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary"}
_NOT_KEPT = {*_WEAK, "Callable", "type", "Type", "ClassVar", "InitVar", "Literal"}  # what is named inside of these

_HANDS_OUT = {"values", "items", "get", "pop", "copy", "setdefault", "popitem", "popleft", "union", "result"}
"""Methods of containers that give what is in them."""

_GATHERS = {
    "cast", "chain", "deque", "dict", "enumerate", "frozenset", "iter", "list", "max", "min", "next", "partial",
    "replace", "reversed", "set", "sorted", "tuple", "zip",
}  # fmt: skip
"""Functions whose result holds what they are given."""


@dataclass(eq=False)
class Class:
    """A class of the tree, and what is known of it so far."""

    name: str  # full
    module: Module
    node: ast.ClassDef
    bases: list[str] = field(default_factory=list)  # full names, of classes of the tree
    fields: list[str] = field(default_factory=list)  # declared in the class body, in order: what a dataclass takes
    methods: dict[str, Function] = field(default_factory=dict)
    stored: dict[str, Held] = field(default_factory=dict)  # by attribute
    given: dict[str, Held] = field(default_factory=dict)  # by parameter of the constructor: what calls pass
    declared: dict[str, ast.expr] = field(default_factory=dict)  # annotations, by attribute
    elements: list[ast.expr] = field(default_factory=list)  # what it is made of, if it is a container: dict[str, Job]


@dataclass(eq=False)
class Module:
    """A file of the tree."""

    name: str
    tree: ast.Module
    names: dict[str, str] = field(default_factory=dict)  # local name -> full name, by import or definition
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)


def stored(trees: Mapping[str, ast.Module]) -> dict[tuple[str, str], Held]:
    """The classes that each field of each class stores: by class and field, those that it inherits included."""
    reader = Reader(trees)
    return {
        (name, attribute): held - reader.like(name, held)
        for name in reader.classes
        for of in reader.lineage(name)
        for attribute, held in of.stored.items()
    }


class Reader:
    """Reads a tree again and again until nothing new is found."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.modules: dict[str, Module] = {}
        self._open: dict[int, bool] = {}
        self._named: dict[tuple[int, str], Held] = {}
        self._implementing: dict[str, Held] = {}
        self._lineages: dict[str, list[Class]] = {}
        self.classes: dict[str, Class] = {}
        for name, tree in trees.items():
            self.modules[name] = Module(name, tree)
        for module in self.modules.values():
            self._declare(module)
        for cls in self.classes.values():
            bases = (self.resolve(cls.module, base) for base in cls.node.bases)
            cls.bases = [base for base in bases if base in self.classes]
        for cls in self.classes.values():
            self._declare_fields(cls)
        bodies = [Body(self, *each) for each in self._functions()]
        self._has_changed = True
        while self._has_changed:
            self._has_changed = False
            for cls in self.classes.values():
                for name, annotation in cls.declared.items():
                    held = cls.given.get(name, NOTHING) if name in cls.fields else NOTHING
                    self.note_stored(cls, name, held | self.annotated(cls.module, annotation, cls.name))
            for body in bodies:
                body.read()

    # -- names -----------------------------------------------------------------------------------------

    def _declare(self, module: Module) -> None:
        for node in ast.walk(module.tree):
            match node:
                case ast.ImportFrom(module=str(base), names=names, level=0):
                    for alias in names:
                        module.names[alias.asname or alias.name] = f"{base}.{alias.name}"
                case ast.Import(names=names):
                    for alias in names:
                        module.names[alias.asname or alias.name.partition(".")[0]] = (
                            alias.name if alias.asname else alias.name.partition(".")[0]
                        )
                case ast.ClassDef(name=name):
                    self._declare_class(module, node)
                    module.names[name] = f"{module.name}.{name}"
        for node in module.tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    module.aliases[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    module.aliases[name] = value
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    module.functions[name] = node

    def _declare_class(self, module: Module, node: ast.ClassDef) -> None:
        cls = Class(f"{module.name}.{node.name}", module, node)
        for each in node.body:
            match each:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    cls.fields.append(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    cls.methods.setdefault(name, each)
        self.classes[cls.name] = cls

    def _declare_fields(self, cls: Class) -> None:
        for node in ast.walk(cls.node):
            match node:
                case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), annotation=annotation):
                    cls.declared.setdefault(name, annotation)
        for node in cls.node.body:
            match node:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                    cls.declared[name] = annotation
        cls.elements = [base.slice for base in cls.node.bases if isinstance(base, ast.Subscript)]

    def fitting(self, module: Module, annotation: ast.expr, held: Held, owner: str) -> Held:
        """What of `held` may be where this annotation stands."""
        if self._is_open(module, annotation):
            return held
        wanted = self.annotated(module, annotation, owner)
        return frozenset(it for it in held if any(of.name in wanted for of in self.lineage(it)))

    def _is_open(self, module: Module, annotation: ast.expr, seen: Held = NOTHING) -> bool:
        """Whether values of classes that an annotation does not name may stand there."""
        key = id(annotation)
        if key not in self._open:
            self._open[key] = self._says_little(module, annotation, seen)
        return self._open[key]

    def _says_little(self, module: Module, annotation: ast.expr, seen: Held) -> bool:
        for node in ast.walk(annotation):
            match node:
                case ast.Name(id="Any" | "object" | "Callable" | "T"):
                    return True
                case ast.Constant(value=str(text)) if text.isidentifier():
                    node = ast.Name(text)
            if isinstance(node, ast.Name):
                full = self.resolve(module, node)
                holder, _, name = full.rpartition(".")
                if full in self.classes:
                    if self.is_protocol(full):
                        return True
                elif holder in self.modules and name in self.modules[holder].aliases and full not in seen:
                    other = self.modules[holder]
                    value = other.aliases[name]
                    if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("TypeVar"):
                        return True
                    if self._is_open(other, value, seen | {full}):
                        return True
        return False

    def made_of(self, holders: Held) -> Held:
        """What comes out of these when someone goes through them, or looks up in them."""
        found: set[str] = set()
        for holder in holders:
            lineage = self.lineage(holder)
            having, returned = self.method(frozenset([holder]), "__iter__")
            elements = [(of, each) for of in lineage for each in of.elements]
            if having:
                found |= returned
            elif elements:
                found |= _all(self.annotated(of.module, each, holder) for of, each in elements)
            else:
                found.add(holder)
        return frozenset(found)

    def resolve(self, module: Module, node: ast.expr) -> str:
        """The full name that an expression of names and dots stands for; "" if it is none."""
        if isinstance(node, ast.Subscript):
            return self.resolve(module, node.value)
        if isinstance(node, ast.Name):
            full = module.names.get(node.id, f"{module.name}.{node.id}")
        elif isinstance(node, ast.Attribute):
            base = self.resolve(module, node.value)
            if not base:
                return ""
            full = f"{base}.{node.attr}"
        else:
            return ""
        return self._origin(full)

    def _origin(self, full: str) -> str:
        """Where a name that was imported into another module is defined."""
        for _ in range(8):
            holder, _, name = full.rpartition(".")
            if full in self.classes or holder not in self.modules or name not in self.modules[holder].names:
                break
            full = self.modules[holder].names[name]
        return full

    def function(self, full: str) -> tuple[Module, Function] | None:
        """The function of a full name, and where it is."""
        holder, _, name = full.rpartition(".")
        module = self.modules.get(holder)
        return None if module is None or name not in module.functions else (module, module.functions[name])

    def lineage(self, name: str) -> list[Class]:
        """A class and those that it inherits from."""
        if name in self._lineages:
            return self._lineages[name]
        found: list[Class] = []
        open_names = [name]
        while open_names:
            one = self.classes.get(open_names.pop(0))
            if one is not None and one not in found:
                found.append(one)
                open_names += one.bases
        self._lineages[name] = found
        return found

    def like(self, name: str, held: Held) -> Held:
        """Those of `held` that are there as what this class is too, by a protocol: parts of a tree."""
        protocols = [it for it in held if self.is_protocol(it)]
        return _all(self.implementing(it) for it in protocols if name in self.implementing(it))

    def implementing(self, name: str) -> Held:
        """The classes that have all that a protocol asks for; none for one that asks for nothing."""
        if name not in self._implementing:
            asked = {it for of in self.lineage(name) for it in (*of.methods, *of.declared) if not it.startswith("__")}
            self._implementing[name] = frozenset(
                other
                for other in self.classes
                if asked and not self.is_protocol(other) and asked <= self._members(other)
            )
        return self._implementing[name]

    def _members(self, name: str) -> set[str]:
        return {it for of in self.lineage(name) for it in (*of.methods, *of.declared, *of.fields)}

    def is_protocol(self, name: str) -> bool:
        """Whether a class only says what others can do."""
        cls = self.classes[name]
        return any(ast.unparse(base).partition("[")[0].endswith("Protocol") for base in cls.node.bases)

    # -- annotations -----------------------------------------------------------------------------------

    def annotated(self, module: Module, node: ast.expr | None, owner: str = "", seen: Held = NOTHING) -> Held:
        """The classes that something of this annotation is, or holds."""
        if node is None:
            return NOTHING
        key = (id(node), owner)
        if key not in self._named:
            self._named[key] = self._read_annotation(module, node, owner, seen)
        return self._named[key]

    def _read_annotation(self, module: Module, node: ast.expr, owner: str, seen: Held) -> Held:
        match node:
            case ast.Constant(value=str(text)):
                try:
                    return self.annotated(module, ast.parse(text, mode="eval").body, owner, seen)
                except SyntaxError:
                    return NOTHING
            case ast.Name(id="Self"):
                return frozenset([owner]) if owner else NOTHING
            case ast.Name() | ast.Attribute():
                full = self.resolve(module, node)
                if full in self.classes:
                    return frozenset([full]) | (self.implementing(full) if self.is_protocol(full) else NOTHING)
                holder, _, name = full.rpartition(".")
                other = self.modules.get(holder)
                if other is not None and name in other.aliases and full not in seen:
                    return self.annotated(other, other.aliases[name], owner, seen | {full})
                return NOTHING
            case ast.Subscript(value=value, slice=inside):
                name = ast.unparse(value).rpartition(".")[2]
                if name in _NOT_KEPT:
                    return NOTHING
                if name == "Annotated" and isinstance(inside, ast.Tuple):
                    return self.annotated(module, inside.elts[0], owner, seen)
                return self.annotated(module, value, owner, seen) | self.annotated(module, inside, owner, seen)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return _all(self.annotated(module, each, owner, seen) for each in elts)
            case ast.BinOp(left=left, right=right):
                return self.annotated(module, left, owner, seen) | self.annotated(module, right, owner, seen)
        return NOTHING

    # -- code ------------------------------------------------------------------------------------------

    def _functions(self) -> Iterator[tuple[Module, Class | None, Function]]:
        for module in self.modules.values():
            for node in module.tree.body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield module, None, node
        for cls in self.classes.values():
            for each in cls.node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield cls.module, cls, each

    def note_stored(self, cls: Class, attribute: str, held: Held) -> None:
        """An attribute of a class holds these."""
        if attribute in cls.declared:
            held = self.fitting(cls.module, cls.declared[attribute], held, cls.name)
        before = cls.stored.get(attribute, NOTHING)
        if not held <= before or attribute not in cls.stored:
            cls.stored[attribute] = before | held
            self._has_changed = self._has_changed or not held <= before

    def note_given(self, cls: Class, parameter: str, held: Held) -> None:
        """A call passes these to the constructor of a class."""
        before = cls.given.get(parameter, NOTHING)
        if not held <= before:
            cls.given[parameter] = before | held
            self._has_changed = True

    def construct(self, name: str, arguments: Sequence[tuple[str | int, Held]]) -> None:
        """A constructor is called with these, by place or by name."""
        for of in self.lineage(name):
            if "__init__" in of.methods:
                takes = of.methods["__init__"].args
                names = [arg.arg for arg in [*takes.posonlyargs, *takes.args]][1:]
                break
        else:
            of = self.classes[name]
            names = [each for base in reversed(self.lineage(name)) for each in base.fields]
        for place, held in arguments:
            parameter = place if isinstance(place, str) else names[place] if place < len(names) else ""
            if parameter and held:
                holder = next((it for it in self.lineage(name) if parameter in it.fields), of)
                self.note_given(of if "__init__" in of.methods else holder, parameter, held)

    def attribute(self, holders: Held, name: str) -> Held | None:
        """What an attribute of one of these holds; None if none of them has a field or property of that name."""
        found: list[Held] = []
        for holder in holders:
            for of in self.lineage(holder):
                if name in of.stored:
                    found.append(of.stored[name])
                elif name in of.methods and _is_property(of.methods[name]):
                    found.append(self.annotated(of.module, of.methods[name].returns, of.name))
                else:
                    continue
                break
        return _all(found) if found else None

    def method(self, holders: Held, name: str) -> tuple[Held, Held]:
        """The holders that have a method of that name, and what it returns."""
        having, returned = set(), NOTHING
        for holder in holders:
            for of in self.lineage(holder):
                if name in of.methods:
                    having.add(holder)
                    returned |= self.annotated(of.module, of.methods[name].returns, holder)
                    break
        return frozenset(having), returned


def _all(sets: Iterable[Held]) -> Held:
    return NOTHING.union(*sets)


def _is_property(function: Function) -> bool:
    return any(ast.unparse(it).rpartition(".")[2] in ("property", "cached_property") for it in function.decorator_list)


_MATTERS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem,
    ast.Call, ast.FunctionDef, ast.AsyncFunctionDef,
)  # fmt: skip


def _arguments(node: ast.arguments) -> list[ast.arg]:
    return [*node.posonlyargs, *node.args, *node.kwonlyargs]


class Body:
    """One function: what its local names hold, and what it stores."""

    def __init__(self, reader: Reader, module: Module, cls: Class | None, node: Function) -> None:
        self._reader, self._module, self._cls, self._node = reader, module, cls, node
        self.locals: dict[str, Held] = {}
        self._owner = "" if cls is None else cls.name
        self._nodes = list(self._inside(node))
        self._arguments = [it for each in ast.walk(node) if isinstance(each, ast.arguments) for it in _arguments(each)]
        own = _arguments(node.args)
        is_static = any(ast.unparse(it) == "staticmethod" for it in node.decorator_list)
        self._self = own[0].arg if cls is not None and own and not is_static else ""
        self._is_class_method = any(ast.unparse(it) == "classmethod" for it in node.decorator_list)

    def read(self) -> None:
        """Note what is stored."""
        for arg in self._arguments:  # those of functions inside too: names mean the same thing all over a function
            held = self._reader.annotated(self._module, arg.annotation, self._owner)
            if self._cls is not None and self._node.name == "__init__":
                given = self._cls.given.get(arg.arg, NOTHING)
                if arg.annotation is not None:
                    given = self._reader.fitting(self._module, arg.annotation, given, self._owner)
                held |= given
            self.locals[arg.arg] = self.locals.get(arg.arg, NOTHING) | held
        if self._self:
            self.locals[self._self] = frozenset([self._owner]) if not self._is_class_method else NOTHING
        for node in self._nodes:
            self._note(node)

    def _inside(self, node: ast.AST) -> Iterator[ast.AST]:
        """All inside, in order, that matters."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, _MATTERS):
                yield child
            if not isinstance(child, ast.ClassDef):
                yield from self._inside(child)

    def _note(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(target, value)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                held = NOTHING if value is None else self.held(value)
                held = self._reader.fitting(self._module, annotation, held, self._owner)
                self._put(target, held | self._reader.annotated(self._module, annotation, self._owner))
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                self._assign(target, value)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.locals[name] = self._captured(node)
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                self._put(target, self._reader.made_of(self.held(value)))
            case ast.comprehension(target=target, iter=value):
                self._put(target, self._reader.made_of(self.held(value)))
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                self._put(target, self.held(value))
            case ast.Call():
                self._call(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for each, what in zip(target.elts, value.elts, strict=True):
                self._assign(each, what)
        else:
            self._put(target, self.held(value))

    def _put(self, target: ast.expr, held: Held) -> None:
        match target:
            case ast.Name(id=name):
                self.locals[name] = self.locals.get(name, NOTHING) | held
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                for each in elts:
                    self._put(each, held)
            case ast.Starred(value=value):
                self._put(value, held)
            case ast.Attribute(value=value, attr=attribute):
                for holder in self.held(value):
                    cls = next((it for it in self._reader.lineage(holder) if attribute in it.stored), None)
                    if cls is None and isinstance(value, ast.Name) and value.id in ("self", "other"):
                        cls = self._reader.classes[holder]
                    if cls is not None:
                        self._reader.note_stored(cls, attribute, held)

    def _call(self, node: ast.Call) -> None:
        """Follow arguments into constructors."""
        name = self._reader.resolve(self._module, node.func)
        if isinstance(node.func, ast.Name) and node.func.id == "cls" and self._cls is not None:
            name = self._cls.name
        if name in self._reader.classes and not self._is_local(node.func):
            given: list[tuple[str | int, Held]] = [(i, self.held(arg)) for i, arg in enumerate(node.args)]
            given += [(it.arg, self.held(it.value)) for it in node.keywords if it.arg]
            self._reader.construct(name, given)

    def _is_local(self, node: ast.expr) -> bool:
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.locals

    def held(self, node: ast.expr) -> Held:
        """The classes that a value is, or holds."""
        reader = self._reader
        match node:
            case ast.Name(id=name):
                return self.locals.get(name, NOTHING)
            case ast.Attribute(value=value, attr=attribute):
                holders = self.held(value)
                found = reader.attribute(holders, attribute)
                if found is not None:
                    return found
                having, _ = reader.method(holders, attribute)  # a bound method holds its object
                return having
            case ast.Call():
                return self._result(node)
            case ast.IfExp(body=body, orelse=orelse):
                return self.held(body) | self.held(orelse)
            case ast.BoolOp(values=values):
                return _all(self.held(it) for it in values)
            case ast.BinOp(left=left, right=right):
                return self.held(left) | self.held(right)
            case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
                return _all(self.held(it) for it in elts)
            case ast.Dict(keys=keys, values=values):
                return _all(self.held(it) for it in [*keys, *values] if it is not None)
            case ast.Subscript(value=value):
                return reader.made_of(self.held(value))
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.held(value)
            case ast.NamedExpr(value=value):
                return self.held(value)
            case ast.ListComp(elt=elt, generators=generators) | ast.SetComp(elt=elt, generators=generators):
                return self._comprehended([elt], generators)
            case ast.GeneratorExp(elt=elt, generators=generators):
                return self._comprehended([elt], generators)
            case ast.DictComp(key=key, value=value, generators=generators):
                return self._comprehended([key, value], generators)
            case ast.Lambda():
                return self._captured(node)
        return NOTHING

    def _comprehended(self, elements: Sequence[ast.expr], generators: Sequence[ast.comprehension]) -> Held:
        for each in generators:
            self._put(each.target, self._reader.made_of(self.held(each.iter)))
        return _all(self.held(it) for it in elements)

    def _captured(self, node: ast.Lambda | Function) -> Held:
        """What a closure keeps: the local names that it reads from around it."""
        own = {arg.arg for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
        read = {it.id for it in ast.walk(node) if isinstance(it, ast.Name) and isinstance(it.ctx, ast.Load)}
        return _all(self.locals.get(name, NOTHING) for name in read - own)

    def _result(self, node: ast.Call) -> Held:
        reader, callee = self._reader, node.func
        every = [*node.args, *(it.value for it in node.keywords)]
        last = callee.id if isinstance(callee, ast.Name) else callee.attr if isinstance(callee, ast.Attribute) else ""
        if last in _WEAK:
            return NOTHING
        if last == "cls" and self._cls is not None:
            return frozenset([self._cls.name])
        if not self._is_local(callee):
            full = reader.resolve(self._module, callee)
            if full in reader.classes:
                return frozenset([full])
            function = reader.function(full)
            if function is not None:
                return reader.annotated(function[0], function[1].returns)
            holder, _, name = full.rpartition(".")
            if holder in reader.classes:  # a class method
                return reader.method(frozenset([holder]), name)[1]
            if last == "super" and self._cls is not None:
                return frozenset(self._cls.bases)
        if isinstance(callee, ast.Attribute):
            holders = self.held(callee.value)
            having, returned = reader.method(holders, callee.attr)
            if having:
                return returned
            if callee.attr in _HANDS_OUT:
                return reader.made_of(holders) | (_all(self.held(it) for it in node.args[1:]))
        if last in _GATHERS:
            return _all(self.held(it) for it in every)
        return NOTHING


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Strongly connected parts of more than one member, each in order of names."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
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
