"""A job file for several clusters: read as a whole, or refused with every problem in it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from muster.documents import document
from muster.documents.problems import DocumentError, Problems, joined, quoted
from muster.documents.values import List, Map, Scalar, Value, shown
from muster.model.race import MINUTE_MS, Grace, Terms
from muster.openpai.names import LEGAL, MOST_NAME

VERSION = "super-2"
PLUGINS = "com.microsoft.pai.runtimeplugin"
SCHEDULER = "super_scheduler"
TOKEN = "token-"

_WHAT = "a job file is a mapping with keys such as protocolVersion, name and taskRoles"
_MOST_MINUTES = 100 * 365 * 24 * 60
_NAME = f"a name of at most {MOST_NAME} letters, digits, '_' and '-'"
_PARAMETERS = ("clusters", "guardTimeRunning", "timeScale", "grace", "params")
_CLUSTER_KEYS = ("uri", "user", "priority")


class JobFileError(DocumentError):
    """A job file that cannot be used: all its problems, in the order of their lines."""


class JobFileProblems(Problems):
    """Collects the problems of one job file."""

    raises = JobFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One cluster the job may run in; the alias of one without a `uri` is its URI."""

    alias: str
    uri: str
    user: str = ""
    priority: int = 50
    token: str = field(default="", repr=False)  # never in a log


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """What a job file says. `document` is all of it; `extras` the key under which its plugins stand."""

    name: str
    file: str
    candidates: tuple[Candidate, ...]
    terms: Terms
    params: dict[str, Map]
    document: Map = field(repr=False)
    extras: str

    @property
    def aliases(self) -> tuple[str, ...]:
        """The clusters by alias, in the order of the file."""
        return tuple(candidate.alias for candidate in self.candidates)


def load(path: str) -> JobFile:
    """The job file at a path; raises JobFileError."""
    problems = JobFileProblems(path)
    return _job_file(document.read_file(path, problems), problems)


def parse(text: str, name: str = "<text>") -> JobFile:
    """The job file in `text`; raises JobFileError."""
    problems = JobFileProblems(name)
    return _job_file(document.encoded(text, problems), problems)


def _job_file(data: bytes, problems: Problems) -> JobFile:
    top = document.read(data, problems, _WHAT)
    if not isinstance(top, Map):
        problems.stop("", top.line, f"{shown(top)} is not allowed: {_WHAT}")
    _check_version(top, problems)
    name = _text(top, "name", "", problems, needed=_NAME)
    if name and (len(name) > MOST_NAME or not LEGAL.fullmatch(name)):
        problems.refuse("name", top.values["name"].line, quoted(name), _NAME)
    extras = _extras_key(top, problems)
    parameters, path = _scheduler(top, extras, problems)
    _check_keys(parameters, path, _PARAMETERS, problems)
    candidates = _candidates(parameters, path, _secrets(top, problems), problems)
    made = JobFile(
        name=name,
        file=problems.name,
        candidates=candidates,
        terms=Terms(
            guard_ms=_minutes(parameters, "guardTimeRunning", path, Terms().guard_ms, problems),
            time_scale_ms=_minutes(parameters, "timeScale", path, Terms().time_scale_ms, problems),
            grace=_grace(parameters, path, problems),
        ),
        params=_params(parameters, path, [candidate.alias for candidate in candidates], problems),
        document=top,
        extras=extras,
    )
    if problems:
        raise problems.error()
    return made


def _check_version(top: Map, problems: Problems) -> None:
    version = _text(top, "protocolVersion", "", problems, needed=VERSION)
    if version and version != VERSION:
        allowed = f"{VERSION}: a job for several clusters (what begins with super- is one; 2 is a job for one)"
        problems.refuse("protocolVersion", top.values["protocolVersion"].line, quoted(version), allowed)


def _extras_key(top: Map, problems: Problems) -> str:
    """OpenPAI's server says `extras`, the document says `extra`."""
    if "extra" in top.values and "extras" in top.values:
        problems.add("extra", top.lines["extra"], "extra and extras are two spellings of one key: give one of them")
    return "extra" if "extra" in top.values else "extras"


def _scheduler(top: Map, extras: str, problems: Problems) -> tuple[Map, str]:
    """The parameters of the plugin that says where the job is raced."""
    plugins = _map(top, extras, "", problems).values.get(PLUGINS)
    path = joined(extras, PLUGINS)
    items = plugins.items if isinstance(plugins, List) else []
    found = [
        (item, f"{path}[{place}]")
        for place, item in enumerate(items)
        if isinstance(item, Map) and plugin_of(item) == SCHEDULER
    ]
    if len(found) != 1:
        line = plugins.line if plugins is not None else top.line
        problems.stop(path, line, f"one plugin {SCHEDULER} is needed, with its clusters; there are {len(found)}")
    item, path = found[0]
    return _map(item, "parameters", path, problems), joined(path, "parameters")


def plugin_of(item: Map) -> str:
    """The name of a plugin."""
    value = item.values.get("plugin")
    return value.text if isinstance(value, Scalar) else ""


def _candidates(parameters: Map, path: str, secrets: Map, problems: Problems) -> tuple[Candidate, ...]:
    clusters, path = _map(parameters, "clusters", path, problems), joined(path, "clusters")
    if not clusters.values:
        problems.add(path, clusters.line, "missing: at least one cluster, as alias: {uri: ..., user: ...}")
    made = []
    for alias in clusters.values:
        entry, where = _map(clusters, alias, path, problems), joined(path, alias)
        _check_keys(entry, where, _CLUSTER_KEYS, problems)
        token = secrets.values.get(f"{TOKEN}{alias}")
        made.append(
            Candidate(
                alias=alias,
                uri=_text(entry, "uri", where, problems) or alias,
                user=_text(entry, "user", where, problems),
                priority=_priority(entry, where, problems),
                token=token.text if isinstance(token, Scalar) else "",
            )
        )
    return tuple(made)


def _params(parameters: Map, path: str, aliases: list[str], problems: Problems) -> dict[str, Map]:
    params, path = _map(parameters, "params", path, problems), joined(path, "params")
    made = {}
    for name in params.values:
        by_alias, where = _map(params, name, path, problems), joined(path, name)
        for alias in by_alias.values:
            if alias not in aliases:
                allowed = f"a cluster of this file: {', '.join(aliases) or 'it has none'}"
                problems.refuse(joined(where, alias), by_alias.lines[alias], f"the key {quoted(alias)}", allowed)
            _check_no_parameter(by_alias.values[alias], joined(where, alias), problems)
        made[name] = by_alias
    return made


def _check_no_parameter(value: Value, path: str, problems: Problems) -> None:
    """A parameter is replaced once: one inside of another would reach the cluster as it stands."""
    if isinstance(value, Scalar):
        if "$mcc" in value.text:
            problems.refuse(path, value.line, quoted(value.text), "a parameter may not refer to another")
        return
    items = value.items if isinstance(value, List) else list(value.values.values())
    for item in items:
        _check_no_parameter(item, path, problems)


# --- single values ------------------------------------------------------------------------------


def _secrets(top: Map, problems: Problems) -> Map:
    return _map(top, "secrets", "", problems)


def _map(parent: Map, key: str, path: str, problems: Problems) -> Map:
    """A mapping; an empty one when it is absent, or (noted) something else."""
    value = parent.values.get(key)
    if isinstance(value, Map):
        return value
    if value is not None and not (isinstance(value, Scalar) and value.value is None):
        problems.refuse(joined(path, key), value.line, shown(value), "a mapping")
    return Map(value.line if value is not None else parent.line, {}, {})


def _text(parent: Map, key: str, path: str, problems: Problems, *, needed: str = "") -> str:
    value = parent.values.get(key)
    if isinstance(value, Scalar) and value.value is not None:
        return value.text
    if value is not None:
        problems.refuse(joined(path, key), value.line, shown(value), needed or "text")
    elif needed:
        problems.add(joined(path, key), parent.line, f"missing: {needed}")
    return ""


def _priority(entry: Map, path: str, problems: Problems) -> int:
    value = entry.values.get("priority")
    if value is None:
        return 50
    number = value.value if isinstance(value, Scalar) else None
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= 100:
        return number
    problems.refuse(joined(path, "priority"), value.line, shown(value), "a whole number from 0 to 100")
    return 50


def _minutes(parent: Map, key: str, path: str, default_ms: int, problems: Problems) -> int:
    value = parent.values.get(key)
    if value is None:
        return default_ms
    number = value.value if isinstance(value, Scalar) else None
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    if is_number and 0 <= number <= _MOST_MINUTES:  # type: ignore[operator]
        return round(Fraction(repr(number)) * MINUTE_MS)
    problems.refuse(joined(path, key), value.line, shown(value), "a number of minutes, at most 100 years")
    return default_ms


def _grace(parameters: Map, path: str, problems: Problems) -> Grace:
    word = _text(parameters, "grace", path, problems) or Grace.STRICT.value
    if word in {grace.value for grace in Grace}:
        return Grace(word)
    problems.refuse(joined(path, "grace"), parameters.values["grace"].line, quoted(word), "strict or running")
    return Grace.STRICT


def _check_keys(mapping: Map, path: str, allowed: tuple[str, ...], problems: Problems) -> None:
    for key, line in mapping.lines.items():
        if key not in allowed and key in mapping.values:
            keys = ", ".join(allowed)
            problems.refuse(joined(path, key), line, f"the key {quoted(key)}", f"the keys here are {keys}")
