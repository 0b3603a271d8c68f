"""What a specialised job asks for, and the race of a whole file."""

from __future__ import annotations

from muster.model.errors import InvalidValue
from muster.model.race import RaceSpec, Rival
from muster.model.resources import CPU, GPU, MEMORY, MILLI, PODS, Resources, total
from muster.openpai.jobfile import JobFile
from muster.openpai.specialise import Document, specialised

_UNITS = {"cpu": (CPU, MILLI), "gpu": (GPU, MILLI), "memoryMB": (MEMORY, 1 << 20)}
_ALLOWED = "must be a whole number, zero or more"


def race_spec(file: JobFile) -> RaceSpec:
    """The race that a file describes; raises JobFileError or InvalidValue, and then nothing may be submitted."""
    documents = specialised(file)
    rivals = tuple(
        Rival(cluster=one.alias, priority=one.priority, asks=amounts(documents[one.alias])) for one in file.candidates
    )
    return RaceSpec(terms=file.terms, rivals=rivals)


def amounts(job: Document) -> Resources:
    """What all instances of all task roles ask for together."""
    roles = job.get("taskRoles")
    if not isinstance(roles, dict):
        return Resources.of({})
    return total(_role(role, f"taskRoles.{name}") for name, role in roles.items() if isinstance(role, dict))


def _role(role: Document, path: str) -> Resources:
    each = role.get("resourcePerInstance")
    instances = _whole(role.get("instances", 1), f"{path}.instances")
    asked = {PODS: 1}
    for key, (name, units) in _UNITS.items():
        if isinstance(each, dict) and key in each:
            asked[name] = units * _whole(each[key], f"{path}.resourcePerInstance.{key}")
    return Resources.of(asked) * instances


def _whole(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidValue(value, _ALLOWED, field)
    return value
