"""The job that one cluster gets (openpai-multi-cluster.md; design.md 11.6 and 11.7).

Both spellings of the document and of the real server are read; always what the server takes is written. Tokens of
clusters and the plugin that says where the job is raced are for us alone: no cluster sees them.
"""

from __future__ import annotations

from muster.documents.problems import Problems, joined
from muster.documents.values import List, Map, Value
from muster.model.errors import InvalidValue
from muster.openpai.jobfile import PLUGINS, SCHEDULER, TOKEN, JobFile, JobFileProblems, plugin_of
from muster.openpai.names import child_name
from muster.openpai.placeholders import Filling

Document = dict[str, object]

PROTOCOL = "2"
_SPELT = {"teamwiase_storage": "teamwise_storage"}


def specialise(file: JobFile, alias: str, attempt: int = 1) -> Document:
    """The job for one cluster. Raises JobFileError when any cluster of the file lacks something: all or none."""
    if alias not in file.aliases:
        raise InvalidValue(alias, f"must be a cluster of the file: {', '.join(file.aliases)}", "cluster")
    return specialised(file, attempt)[alias]


def specialised(file: JobFile, attempt: int = 1) -> dict[str, Document]:
    """The jobs of all clusters by alias; raises JobFileError with what every one of them lacks."""
    problems = JobFileProblems(file.file)
    made = {alias: _document(file, alias, attempt, problems) for alias in file.aliases}
    if problems:
        raise problems.error()
    return made


def _document(file: JobFile, alias: str, attempt: int, problems: Problems) -> Document:
    tokens = frozenset(f"{TOKEN}{other}" for other in file.aliases)
    filling = Filling(alias=alias, params=file.params, tokens=tokens, problems=problems)
    made: Document = {}
    for key, value in file.document.values.items():
        match key:
            case "protocolVersion":
                made[key] = PROTOCOL
            case "name":
                made[key] = child_name(file.name, alias, attempt)
            case "secrets":
                _put(made, key, filling.filled(_without(value, tokens), key))
            case file.extras:
                _put(made, "extras", _extras(filling, value, key))
            case _:
                made[filling.key(file.document, key, "")] = filling.filled(value, key)
    return made


def _put(made: Document, key: str, value: object) -> None:
    """What has become empty is left out: a cluster may refuse it."""
    if value != {}:
        made[key] = value


def _without(value: Value, tokens: frozenset[str]) -> Value:
    if not isinstance(value, Map):
        return value
    return Map(value.line, {key: item for key, item in value.values.items() if key not in tokens}, value.lines)


def _extras(filling: Filling, extras: Value, path: str) -> object:
    if not isinstance(extras, Map):
        return filling.filled(extras, path)
    made: Document = {}
    for key, value in extras.values.items():
        if key == PLUGINS and isinstance(value, List):
            plugins = [
                _plugin(filling, item, f"{joined(path, key)}[{place}]")
                for place, item in enumerate(value.items)
                if not (isinstance(item, Map) and plugin_of(item) == SCHEDULER)
            ]
            if plugins:
                made[key] = plugins
        else:
            made[filling.key(extras, key, path)] = filling.filled(value, joined(path, key))
    return made


def _plugin(filling: Filling, item: Value, path: str) -> object:
    made = filling.filled(item, path)
    if isinstance(made, dict) and isinstance(made.get("plugin"), str):
        made["plugin"] = _SPELT.get(made["plugin"], made["plugin"])
    return made
