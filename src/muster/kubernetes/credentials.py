"""How we prove who we are: a token, a certificate, files that are renewed under us, or a program that knows.

Whoever asks gets a Proof that is good now. A proof the server did not believe is forgotten, and made anew.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from muster.kubernetes.errors import NoCredentials

READ_AGAIN_S = 60.0  # tokens that a cluster hands out are renewed when four fifths of their hour are over
PLUGIN_S = 60.0
EARLY_S = 10.0  # a proof that runs out while a request is on its way is no use

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What goes with each request: a token, a client certificate with its key (PEM), or both, or nothing."""

    token: str = field(default="", repr=False)
    certificate: str = ""
    key: str = field(default="", repr=False)


class Credentials(Protocol):
    """Whatever can prove who we are."""

    async def proof(self) -> Proof:
        """One that is good now."""

    def forget(self) -> None:
        """The server does not believe the last one."""


Source = Callable[[], str]
"""Where a text comes from."""


def written(text: str) -> Source:
    """A text that stays what it is."""
    return lambda: text


def in_file(path: Path) -> Source:
    """A text that others may renew."""

    def read() -> str:
        try:
            return path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as err:
            raise NoCredentials(f"{path} cannot be read: {err}") from err

    return read


def remembered(source: Source) -> Source:
    """The same text, asked for at most once a minute."""
    last, read_at = "", float("-inf")

    def read() -> str:
        nonlocal last, read_at
        if time.monotonic() - read_at > READ_AGAIN_S:
            last, read_at = source(), time.monotonic()
        return last

    return read


NOTHING = written("")


class Given:
    """Texts that were given, or files that are read again from time to time."""

    def __init__(
        self,
        *,
        token: Source = NOTHING,
        certificate: Source = NOTHING,
        key: Source = NOTHING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._token, self._certificate, self._key = token, certificate, key
        self._clock = clock
        self._last: Proof | None = None
        self._read_at = 0.0

    async def proof(self) -> Proof:
        """What the files say, at most a minute ago."""
        if self._last is None or self._clock() - self._read_at > READ_AGAIN_S:
            self._last = Proof(token=self._token(), certificate=self._certificate(), key=self._key())
            self._read_at = self._clock()
        return self._last

    def forget(self) -> None:
        """Read them anew."""
        self._last = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A program that hands out credentials, as a kubeconfig's `exec` names it."""

    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    install_hint: str = ""
    cluster: Mapping[str, object] | None = None  # what the program is told about the server, if it wants to know


class _Handed(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    status: _Handed | None = None


class Executed:
    """What a plugin hands out, until it runs out. However many ask at once, the plugin runs once."""

    def __init__(self, plugin: Plugin, *, timeout_s: float = PLUGIN_S) -> None:
        self._plugin = plugin
        self._timeout_s = timeout_s
        self._handed: _Handed | None = None
        self._lock = asyncio.Lock()

    async def proof(self) -> Proof:
        """What it handed out, or hands out now."""
        async with self._lock:
            if self._handed is None or _is_over(self._handed):
                self._handed = await self._run()
            handed = self._handed
        return Proof(token=handed.token, certificate=handed.client_certificate_data, key=handed.client_key_data)

    def forget(self) -> None:
        """Ask it again."""
        self._handed = None

    async def _run(self) -> _Handed:
        plugin = self._plugin
        spec: dict[str, object] = {"interactive": False}
        if plugin.cluster is not None:
            spec["cluster"] = plugin.cluster
        told = msgspec.json.encode({"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}).decode()
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.arguments,
                env={**os.environ, **plugin.environment, "KUBERNETES_EXEC_INFO": told},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as err:
            hint = f" ({plugin.install_hint.strip()})" if plugin.install_hint else ""
            raise NoCredentials(f"{plugin.command} cannot be run: {err}{hint}") from err
        try:
            out, errors = await asyncio.wait_for(process.communicate(), self._timeout_s)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise NoCredentials(f"{plugin.command} gave no answer within {self._timeout_s:g} s") from None
        if process.returncode != 0:
            said = errors.decode(errors="replace").strip()[-500:]
            raise NoCredentials(f"{plugin.command} ended with {process.returncode}: {said}")
        return _read(plugin, out)


def _read(plugin: Plugin, out: bytes) -> _Handed:
    try:
        answer = msgspec.json.decode(out, type=_ExecCredential)
    except msgspec.MsgspecError as err:
        raise NoCredentials(f"{plugin.command} did not print an ExecCredential: {err}") from err
    if answer.api_version != plugin.api_version:
        raise NoCredentials(f"{plugin.command} speaks {answer.api_version!r}, and {plugin.api_version} was asked for")
    if answer.status is None or not (answer.status.token or answer.status.client_certificate_data):
        raise NoCredentials(f"{plugin.command} handed out neither a token nor a certificate")
    if bool(answer.status.client_certificate_data) != bool(answer.status.client_key_data):
        raise NoCredentials(f"{plugin.command} handed out a certificate without a key, or a key without a certificate")
    return answer.status


def _is_over(handed: _Handed) -> bool:
    if handed.expiration_timestamp is None:
        return False
    return handed.expiration_timestamp.timestamp() - time.time() < EARLY_S
