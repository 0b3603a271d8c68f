"""How a job is run: what each group's tasks execute, and the objects that come and go with the job.

A group has a command with its arguments, environment and working directory, or a Kubernetes pod template, which is kept
as it is. A group with neither can only be simulated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from muster.documents.fields import Fields
from muster.documents.jobs.arrays import INDEX_VARIABLE
from muster.documents.scalars import is_nothing, text_of
from muster.documents.shapes import TEXT, Schema, list_of, mapping_of, said
from muster.documents.storable import STORABLE, is_storable, not_storable
from muster.documents.values import List, Map, Value, plain, shown

SHELL = ("/bin/sh", "-c")

LAUNCH_KEYS = ("command", "args", "env", "workdir", "podTemplate")

_COMMAND = "a list such as [python, train.py], or a line for the shell"
_ARGUMENT = "text without null characters"
_VARIABLE = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_VARIABLE_NAME = re.compile(_VARIABLE)
_POD_TEMPLATE = "a Kubernetes pod template: {spec: {containers: [...]}}"

_SAYABLE: Schema = {**TEXT, "pattern": "^[^\\u0000]*$"}
_LINE: Schema = {**TEXT, "pattern": "^[^\\u0000]+$"}

_CONTAINER: Schema = {"type": "object", "properties": {"env": list_of({})}}

SCHEMA: dict[str, Schema] = {
    "command": said(
        {"type": ["string", "array"], "pattern": _LINE["pattern"], "items": _SAYABLE, "minItems": 1},
        "What each task runs: a program with its arguments as a list, or a line for /bin/sh -c.",
        examples=[["python", "train.py"], "python train.py | tee log"],
    ),
    "args": said(list_of(_SAYABLE), "Further arguments of a command that is a list.", examples=[["--epochs", "3"]]),
    "env": said(
        mapping_of(_SAYABLE, keys={"pattern": f"^{_VARIABLE}$", "not": {"const": INDEX_VARIABLE}}),
        "Environment variables of each task.",
        examples=[{"OMP_NUM_THREADS": "4"}],
    ),
    "workdir": said(
        {**TEXT, "pattern": "^/[^\\u0000]*$"}, "The directory that each task starts in.", examples=["/data"]
    ),
    "podTemplate": said(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"containers": list_of(_CONTAINER, least=1), "initContainers": list_of(_CONTAINER)},
                    "required": ["containers"],
                }
            },
            "required": ["spec"],
        },
        "A Kubernetes pod template, kept as it is; not together with command, args, env and workdir.",
        examples=[{"spec": {"containers": [{"name": "main", "image": "busybox"}]}}],
    ),
}
"""The keys of a group about how it is run."""

DEPENDENT: Schema = {
    "dependentRequired": {key: ["command"] for key in ("args", "env", "workdir")},
    "not": {"required": ["podTemplate", "command"]},
}
"""What these keys say of each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What an agent needs to run a job, in JSON's values. `groups` has each group by its name."""

    groups: Mapping[str, Mapping[str, Any]]
    objects: Sequence[Mapping[str, Any]] = field(default=())

    def plain(self) -> dict[str, Any]:
        """The launch as one JSON object."""
        return {"groups": dict(self.groups), "objects": list(self.objects)}

    def needs(self) -> tuple[str, ...]:
        """The keys that not every cluster can honour: what a cluster must say that it does."""
        has_template = any("podTemplate" in group for group in self.groups.values())
        return (*(("objects",) if self.objects else ()), *(("podTemplate",) if has_template else ()))

    def with_index(self, index: int) -> Launch:
        """The launch of the job with this index of an array."""
        groups = {name: _indexed(group, str(index)) for name, group in self.groups.items()}
        return Launch(groups=groups, objects=self.objects)


def _indexed(group: Mapping[str, Any], index: str) -> Mapping[str, Any]:
    """The group with the index in the environment of its tasks."""
    if "command" in group:
        return {**group, "env": {**group.get("env", {}), INDEX_VARIABLE: index}}
    if "podTemplate" not in group:
        return group
    spec = group["podTemplate"]["spec"]
    variable = {"name": INDEX_VARIABLE, "value": index}
    told = {
        key: [{**one, "env": [*(one.get("env") or ()), variable]} for one in spec[key]]
        for key in ("initContainers", "containers")
        if spec.get(key)
    }
    return {**group, "podTemplate": {**group["podTemplate"], "spec": {**spec, **told}}}


def read_launch(fields: Fields) -> dict[str, Any]:
    """What the tasks of a group run: its keys command, args, env, workdir and podTemplate."""
    command, is_line = _read_command(fields)
    args = [_argument(fields, item, path) for item, path in fields.items("args")]
    env, workdir = _read_env(fields), _read_workdir(fields)
    template = _read_template(fields)
    if fields.has("podTemplate"):
        for key in LAUNCH_KEYS[:-1]:
            if fields.has(key):
                fields.add(key, "not allowed beside podTemplate, which says it")
    elif not fields.has("command"):
        for key in ("args", "env", "workdir"):
            if fields.has(key):
                fields.add(key, "needs a command beside it")
    elif args and is_line:
        fields.add("args", "not allowed where command is a line for the shell: write them into it, or make it a list")
    said = {"command": command, "args": args, "env": env, "workdir": workdir, "podTemplate": template}
    return {key: value for key, value in said.items() if value}


def _read_command(fields: Fields) -> tuple[list[str], bool]:
    """The command as a list, and whether it was a line for the shell."""
    value = fields.get("command")
    if value is None:
        return [], False
    if isinstance(value, List):
        if not value.items:
            fields.refuse("command", _COMMAND)
        return [_argument(fields, item, path) for item, path in fields.items("command")], False
    line = text_of(value)
    if not line or not is_storable(line):
        fields.refuse("command", _COMMAND)
        return [], True
    return [*SHELL, line], True


def _argument(fields: Fields, item: Value, path: str) -> str:
    text = text_of(item)
    if text is None or not is_storable(text):
        fields.problems.refuse(path, item.line, shown(item), _ARGUMENT)
        return ""
    return text


def _read_env(fields: Fields) -> dict[str, str]:
    variables = fields.mapping("env", "env")
    env: dict[str, str] = {}
    for name in variables.given():
        text = text_of(variables.get(name))
        if not is_variable(name):
            variables.refuse_key(name, "a variable of letters, digits, '_', '-' and '.', not beginning with a digit")
        elif name == INDEX_VARIABLE:
            variables.refuse_key(name, "any other variable: jobs of an array are given this one")
        elif text is None or not is_storable(text):
            variables.refuse(name, _ARGUMENT)
        else:
            env[name] = text
    return env


def _read_workdir(fields: Fields) -> str:
    value = fields.get("workdir")
    text = text_of(value)
    if value is not None and (text is None or not text.startswith("/") or not is_storable(text)):
        fields.refuse("workdir", "an absolute path such as /data")
        return ""
    return text or ""


def _read_template(fields: Fields) -> dict[str, Any]:
    value = fields.get("podTemplate")
    if value is None:
        return {}
    if not _is_template(value):
        fields.refuse("podTemplate", _POD_TEMPLATE)
        return {}
    wrong = not_storable(value)
    if wrong is not None:
        fields.problems.refuse(fields.path_of("podTemplate"), wrong.line, shown(wrong), STORABLE)
        return {}
    return cast(dict[str, Any], plain(value))


def _is_template(value: Value) -> bool:
    """Whether there are containers where Kubernetes has them, each with variables that can be added to."""
    spec = value.values.get("spec") if isinstance(value, Map) else None
    if not isinstance(spec, Map):
        return False
    first, then = spec.values.get("initContainers"), spec.values.get("containers")
    if not isinstance(then, List) or not then.items:
        return False
    if first is not None and not is_nothing(first) and not isinstance(first, List):
        return False
    return all(map(_is_container, [*(first.items if isinstance(first, List) else ()), *then.items]))


def _is_container(value: Value) -> bool:
    env = value.values.get("env") if isinstance(value, Map) else None
    return isinstance(value, Map) and (env is None or is_nothing(env) or isinstance(env, List))


def is_variable(name: str) -> bool:
    """Whether an environment variable may be called so."""
    return _VARIABLE_NAME.fullmatch(name) is not None
