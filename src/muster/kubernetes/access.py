"""Where an API server is and how it is spoken to: read from a kubeconfig, or from inside a pod."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from muster.kubernetes.credentials import (
    API_VERSIONS,
    NOTHING,
    Credentials,
    Executed,
    Given,
    Plugin,
    Source,
    in_file,
    written,
)
from muster.model.errors import InvalidValue

POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NOT_HONOURED = ("auth-provider", "username", "password", "as", "as-groups", "as-uid", "as-user-extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One server, seen as one user."""

    server: str  # https://host:port, or with a path below which the API is
    credentials: Credentials
    ca: Source | None = None  # PEM; the system's own, unless given
    is_verified: bool = True
    server_name: str | None = None  # whom the certificate must be made out to, if not the host
    proxy: str | None = None
    namespace: str = "default"


def access_here(kubeconfig: str = "", context: str = "") -> Access:
    """How this process reaches its cluster: a kubeconfig that is named, $KUBECONFIG, the pod it runs in, or ~/.kube."""
    if kubeconfig:
        return from_kubeconfig([Path(kubeconfig)], context)
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if named:
        return from_kubeconfig(named, context)
    if not context and os.environ.get("KUBERNETES_SERVICE_HOST") and (POD_FOLDER / "token").exists():
        return in_cluster()
    return from_kubeconfig([Path.home() / ".kube" / "config"], context)


def in_cluster(environment: Mapping[str, str] = os.environ, folder: Path = POD_FOLDER) -> Access:
    """From inside a pod; its token is renewed by the kubelet, and read again."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise InvalidValue(
            host, "this is not a pod: the address of the API server is missing", "KUBERNETES_SERVICE_HOST"
        )
    namespace = folder / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        credentials=Given(token=in_file(folder / "token")),
        ca=in_file(folder / "ca.crt"),
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
    )


def from_kubeconfig(paths: list[Path], context: str = "") -> Access:
    """What kubeconfig files say together: of two entries with one name the first counts, as for kubectl."""
    config = _merged(paths)
    name = context or config.current
    if not name:
        raise InvalidValue(name, f"a context must be named; {_there_is(config.contexts)}", "current-context")
    chosen = _named(config.contexts, name, "context")
    cluster = _named(config.clusters, _text(chosen, "cluster"), "cluster")
    user = _named(config.users, _text(chosen, "user"), "user") if chosen.entry.get("user") else _Entry("", {}, paths[0])
    server = _text(cluster, "server")
    if not server.startswith(("https://", "http://")):
        raise InvalidValue(server, "must begin with https:// or http://", f"{cluster.where}.server")
    proxy = _text(cluster, "proxy-url")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise InvalidValue(proxy, "only http:// and https:// proxies can be used", f"{cluster.where}.proxy-url")
    return Access(
        server=server.rstrip("/"),
        credentials=_credentials(user, cluster),
        ca=_source(cluster, "certificate-authority"),
        is_verified=not cluster.entry.get("insecure-skip-tls-verify", False),
        server_name=_text(cluster, "tls-server-name") or None,
        proxy=proxy or None,
        namespace=_text(chosen, "namespace") or "default",
    )


# --- the files ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    where: str
    entry: Mapping[str, Any]
    file: Path


@dataclass(frozen=True, slots=True)
class _Config:
    current: str
    contexts: dict[str, _Entry]
    clusters: dict[str, _Entry]
    users: dict[str, _Entry]


def _merged(paths: list[Path]) -> _Config:
    config = _Config("", {}, {}, {})
    there = [path for path in paths if path.exists()]
    if not there:
        raise InvalidValue(os.pathsep.join(map(str, paths)), "there is no such file", "kubeconfig")
    for path in there:
        document = _document(path)
        current = config.current or str(document.get("current-context") or "")
        config = _Config(current, config.contexts, config.clusters, config.users)
        for kind, into in (("context", config.contexts), ("cluster", config.clusters), ("user", config.users)):
            for each in document.get(f"{kind}s") or []:
                if not isinstance(each, dict) or not isinstance(each.get(kind) or {}, dict):
                    raise InvalidValue(each, f"must have a name and a {kind}", f"{path}: {kind}s")
                name = str(each.get("name"))
                into.setdefault(name, _Entry(f"{path}: {kind}s.{name}", each.get(kind) or {}, path))
    return config


def _document(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    except (OSError, yaml.YAMLError) as err:
        raise InvalidValue(str(path), f"cannot be read: {err}", "kubeconfig") from err
    if not isinstance(document, dict):
        raise InvalidValue(document, "must be a map with clusters, users and contexts", str(path))
    return document


def _named(entries: dict[str, _Entry], name: str, kind: str) -> _Entry:
    if name not in entries:
        raise InvalidValue(name, _there_is(entries), kind)
    return entries[name]


def _there_is(entries: Mapping[str, object]) -> str:
    return f"there is {', '.join(sorted(entries))}" if entries else "there is none"


def _text(entry: _Entry, key: str) -> str:
    value = entry.entry.get(key) or ""
    if not isinstance(value, str):
        raise InvalidValue(value, "must be a text", f"{entry.where}.{key}")
    return value


def _source(entry: _Entry, key: str) -> Source | None:
    """PEM as the kubeconfig has it: inside, or in a file beside it."""
    inside = _text(entry, f"{key}-data")
    if inside:
        try:
            return written(base64.b64decode(inside, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            raise InvalidValue("…", "must be base64", f"{entry.where}.{key}-data") from None
    path = _text(entry, key)
    return in_file(_beside(entry, path)) if path else None


def _beside(entry: _Entry, path: str) -> Path:
    return entry.file.absolute().parent / path


# --- users -------------------------------------------------------------------------------------


def _credentials(user: _Entry, cluster: _Entry) -> Credentials:
    for key in _NOT_HONOURED:
        if user.entry.get(key):
            raise InvalidValue(
                "…", "is not supported: use a token, a client certificate or exec", f"{user.where}.{key}"
            )
    token: Source = NOTHING
    if path := _text(user, "tokenFile"):
        token = in_file(_beside(user, path))
    elif text := _text(user, "token"):
        token = written(text)
    certificate, key_source = _source(user, "client-certificate"), _source(user, "client-key")
    if (certificate is None) != (key_source is None):
        raise InvalidValue("…", "a client certificate and its key come together", user.where)
    if user.entry.get("exec") and token is NOTHING and certificate is None:
        return Executed(_plugin(user, cluster))
    return Given(token=token, certificate=certificate or NOTHING, key=key_source or NOTHING)


def _plugin(user: _Entry, cluster: _Entry) -> Plugin:
    asked = _Entry(f"{user.where}.exec", user.entry["exec"], user.file)
    command, api_version = _text(asked, "command"), _text(asked, "apiVersion")
    if not command:
        raise InvalidValue(command, "names the program that hands out credentials", f"{asked.where}.command")
    if api_version not in API_VERSIONS:
        raise InvalidValue(api_version, f"must be one of {', '.join(API_VERSIONS)}", f"{asked.where}.apiVersion")
    if asked.entry.get("interactiveMode") == "Always":
        raise InvalidValue("Always", "nobody can answer it here", f"{asked.where}.interactiveMode")
    variables = {each["name"]: str(each["value"]) for each in asked.entry.get("env") or []}
    told = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")
    about = {key: cluster.entry[key] for key in told if key in cluster.entry}
    return Plugin(
        # A path is meant from the kubeconfig; a bare name is looked for where programs are.
        command=str(_beside(asked, command)) if "/" in command else command,
        api_version=api_version,
        arguments=tuple(map(str, asked.entry.get("args") or [])),
        environment=variables,
        install_hint=_text(asked, "installHint"),
        cluster=about if asked.entry.get("provideClusterInfo") else None,
    )
