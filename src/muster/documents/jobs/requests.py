"""Jobs that come as decoded JSON, thousands in one request, mostly like each other.

`muster.documents.jobs.reading` alone says what a job means; here its answers are remembered, so that what was said
before is not read again: what a job asks for as one piece, how it is run as another, every other key by its value.
Whatever is not plain (an array, a wrong value) is read in full, which also finds every problem.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from muster.documents.fields import Fields
from muster.documents.jobs.circles import refuse_circles
from muster.documents.jobs.groups import ONLY_GROUP
from muster.documents.jobs.known import Known
from muster.documents.jobs.launch import LAUNCH_KEYS, Launch, read_launch
from muster.documents.jobs.reading import FILE_KEYS, JobProblems, read_spec
from muster.documents.jobs.spec import JobSpec
from muster.documents.problems import Problems
from muster.documents.scalars import is_name
from muster.documents.values import Map, decoded
from muster.model.after import After
from muster.model.errors import InvalidValue
from muster.model.jobs import Profile

MOST_REMEMBERED = 10_000  # of each kind: then everything is forgotten

_OF_JOB = {key.name: key for key in FILE_KEYS}
_OF_LAUNCH = frozenset(LAUNCH_KEYS)
_FIELDS = [field.name for field in fields_of(JobSpec)]
_UNHEARD = object()
_AS_THEY_ARE = 2  # marshal's version that writes equal values as equal bytes, however they came to be

_Part = dict[str, Any]


def read_jobs(value: object, known: Known, *, simulation: bool = False) -> list[JobSpec]:
    """The jobs of decoded JSON: one, a list, or {jobs: [...]}; raises JobFileError, whose problems name paths."""
    return JobReader(known, simulation=simulation).read(value)


class JobReader:
    """Reads jobs of many requests, as long as what is known stays the same; of several threads, too."""

    def __init__(self, known: Known, *, simulation: bool = False) -> None:
        self._known = known
        self._simulation = simulation
        self._forget()

    def _forget(self) -> None:
        self._asks: dict[bytes, _Part] = {}
        self._launches: dict[bytes, _Part] = {}
        self._values: dict[tuple[str, type, Any], Any] = {}
        self._profiles: dict[Profile, Profile] = {}

    def _forget_if_full(self) -> None:
        if max(len(self._asks), len(self._launches), len(self._values), len(self._profiles)) > MOST_REMEMBERED:
            self._forget()

    def knows(self, known: Known) -> bool:
        """Whether it reads by just this."""
        return self._known == known

    def read(self, value: object) -> list[JobSpec]:
        """The jobs of one request; raises JobFileError."""
        self._forget_if_full()
        where = ""
        if isinstance(value, dict) and list(value) == ["jobs"]:
            value, where = value["jobs"], "jobs"
        problems = JobProblems("")
        if isinstance(value, list):
            specs = [
                self._quick(entry) or self._full(entry, f"{where}[{index}]", problems)
                for index, entry in enumerate(value)
            ]
            refuse_circles(specs, lambda place, message: problems.add(f"{where}[{place}].after", 0, message))
        else:
            specs = [self._full(value, where, problems)]
        if problems:
            raise problems.error()
        return [spec for spec in specs if spec is not None]

    def read_one(self, entry: object) -> JobSpec:
        """The one job that this is; raises JobFileError."""
        self._forget_if_full()
        problems = JobProblems("")
        spec = self._quick(entry) or self._full(entry, "", problems)
        if spec is None or problems:
            raise problems.error()
        return spec

    def _full(self, entry: object, path: str, problems: Problems) -> JobSpec | None:
        try:
            value = decoded(entry)
        except InvalidValue as err:
            problems.refuse(path, 0, "the job", err.allowed)
            return None
        fields = Fields.of("job", value, path, problems)
        if fields is None:
            return None
        spec = read_spec(fields, self._known, simulation=self._simulation)
        return replace(spec, profile=self._profiles.setdefault(spec.profile, spec.profile))

    def _quick(self, entry: object) -> JobSpec | None:
        """The job, if it can be put together of what was read before; None: it must be read in full."""
        if not isinstance(entry, dict) or ("queue" not in entry and self._known.queues is not None):
            return None
        asks: _Part = {}
        launch: _Part = {}
        given: _Part = {"name": None, "document": entry}
        try:
            for key, value in entry.items():
                if key in _OF_JOB:
                    given[_OF_JOB[key].attribute] = self._value(key, value)
                elif key in _OF_LAUNCH:
                    launch[key] = value
                elif key in _NAMES:
                    given[key] = _NAMES[key](value)
                else:
                    asks[key] = value
            like = self._like(asks)
            if launch:
                given["launch"] = self._launch(launch, like["launch"], asks)
        except (_NotPlain, TypeError, ValueError):  # the last two: what no dictionary and no marshal takes
            return None
        is_own = any(need.job == given["name"] for need in given.get("after", ()))
        return None if is_own else JobSpec(**{**like, **given})

    def _value(self, key: str, value: Any) -> Any:
        """What a key about the whole job says."""
        typed = (key, value.__class__, value)  # 1, 1.0 and true are equal, and not the same
        known = self._values.get(typed, _UNHEARD)
        if known is not _UNHEARD:
            return known
        fields, problems = _fields({key: value})
        read = _OF_JOB[key].read(fields, self._known)
        if problems:
            raise _NotPlain
        self._values[typed] = read  # only now: others may be looking
        return read

    def _like(self, asks: _Part) -> _Part:
        """The fields of a job that says only this."""
        written = marshal.dumps(asks, _AS_THEY_ARE)
        like = self._asks.get(written)
        if like is not None:
            return like
        fields, problems = _fields(asks)
        spec = read_spec(fields, replace(self._known, queues=None), simulation=self._simulation)
        if problems or spec.indices is not None:
            raise _NotPlain
        like = {name: getattr(spec, name) for name in _FIELDS}
        like["profile"] = self._profiles.setdefault(spec.profile, spec.profile)
        self._asks[written] = like
        return like

    def _launch(self, launch: _Part, like: Launch, asks: _Part) -> Launch:
        """How the tasks of a job in short form are run."""
        if "groups" in asks or "podTemplate" in launch:  # which decides where the job may go
            raise _NotPlain
        written = marshal.dumps(launch, _AS_THEY_ARE)
        group = self._launches.get(written)
        if group is None:
            fields, problems = _fields(launch)
            group = read_launch(fields)
            if problems:
                raise _NotPlain
            self._launches[written] = group
        return Launch(groups={ONLY_GROUP: group}, objects=like.objects)


class _NotPlain(Exception):
    """Something must be read in full, to find out what is wrong with it."""


def _fields(part: _Part) -> tuple[Fields, Problems]:
    """Readers over a part of an entry, and where they note what is wrong."""
    problems = Problems("")
    value = decoded(part)
    assert isinstance(value, Map)
    return Fields("job", value, "", problems), problems


def _plain_name(value: Any) -> str:
    if isinstance(value, str) and is_name(value):
        return value
    raise _NotPlain


def _plain_after(value: Any) -> tuple[After, ...]:
    if isinstance(value, list):
        return tuple(map(After, dict.fromkeys(map(_plain_name, value))))
    raise _NotPlain


_NAMES: dict[str, Callable[[Any], Any]] = {"name": _plain_name, "after": _plain_after}
