"""The configuration of a server: one YAML file, whose keys are those of the options of `muster server`, and the policy.

Read like a scenario: every problem of the file with its key, its line and what is allowed. What is said on the command
line wins over the file (muster.cli.serve).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.documents import document
from muster.documents.fields import Fields
from muster.documents.policy.reading import read_policy
from muster.documents.problems import Problems
from muster.documents.scalars import text_of
from muster.model.policy import Policy
from muster.model.width import LEVELS
from muster.server.limits import Limits
from muster.server.recording import LEAST_BYTES

WHAT = "a configuration is a mapping with keys such as host, port, database, limits and policy"

_MILLION = 1_000_000
_MOST_BYTES = 1 << 30
_LEAST_KEPT_MS = _LEAST_SILENCE_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """How a server runs. `database`, `token_file`: empty means those of the user who runs it.

    `record`: the folder in which the last turns are kept for `muster replay`; empty means that none are.
    `levels`: what elastic jobs may call their level.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    database: str = ""
    token_file: str = ""
    record: str = ""
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    levels: Mapping[str, int] = field(default_factory=lambda: LEVELS)


def read_configuration(path: str) -> Configuration:
    """The configuration in a file; raises DocumentError."""
    problems = Problems(path)
    top = Fields.of("configuration", document.read(document.read_file(path, problems), problems, WHAT), "", problems)
    if top is None:
        raise problems.error()
    configuration = _read(top)
    if problems:
        raise problems.error()
    return configuration


def _read(top: Fields) -> Configuration:
    default = Configuration()
    policy, levels = read_policy(top.mapping("policy", "policy"), default.policy)
    configuration = Configuration(
        host=_text(top, "host", "an address or the name of this machine") or default.host,
        port=top.integer("port", default.port, 0, 65535),
        database=_text(top, "database", "sqlite:///PATH or postgresql://…"),
        token_file=_text(top, "tokenFile", "the path of a file"),
        record=_text(top, "record", "the path of a folder"),
        limits=_limits(top, default.limits),
        policy=policy,
        levels=levels,
    )
    top.close()
    return configuration


def _limits(top: Fields, default: Limits) -> Limits:
    fields = top.mapping("limits", "limits")
    silent_ms = top.duration("silentAfter", default.silent_ms, least_ms=_LEAST_SILENCE_MS)
    lost_ms = top.duration("lostAfter", max(default.lost_ms, silent_ms))
    if lost_ms < silent_ms:
        top.refuse("lostAfter", f"at least silentAfter, which is {silent_ms / 1000:g}s")
    limits = Limits(
        most_queued=fields.integer("mostQueued", default.most_queued, 1, 1000 * _MILLION),
        most_jobs=fields.integer("mostJobs", default.most_jobs, 1, _MILLION),
        most_bytes=fields.integer("mostBytes", default.most_bytes, 1024, _MOST_BYTES),
        most_requests=fields.integer("mostRequests", default.most_requests, 0, _MILLION),
        most_strangers=fields.integer("mostStrangers", default.most_strangers, 0, _MILLION),
        most_record=fields.integer("mostRecord", default.most_record, LEAST_BYTES, _MOST_BYTES),
        keep_ms=top.duration("keep", default.keep_ms, least_ms=_LEAST_KEPT_MS),
        silent_ms=silent_ms,
        lost_ms=lost_ms,
    )
    fields.close()
    return limits


def _text(fields: Fields, key: str, allowed: str) -> str:
    value = fields.get(key)
    text = "" if value is None else text_of(value)
    if value is not None and not text:
        fields.refuse(key, allowed)
    return text or ""
