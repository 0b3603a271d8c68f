"""Which server is meant, and with which token.

What is said in so many words comes first: an argument, then the environment (MUSTER_CONTEXT, MUSTER_SERVER,
MUSTER_TOKEN, MUSTER_TOKEN_FILE), then the context in use of $XDG_CONFIG_HOME/muster/contexts.yaml, then the server of
this machine. A token is never sent to another server than the one it is for: a context's goes to that context's, the
one that a local server left in $XDG_STATE_HOME/muster/token to servers of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from muster.model.errors import InvalidValue, MusterError

DEFAULT_SERVER = "http://127.0.0.1:8642"

_ADDRESS = "an address such as http://127.0.0.1:8642 or https://muster.example.org"
_KEYS = ("server", "token", "tokenFile")


class ContextsError(MusterError):
    """The file with contexts, a context or a token file cannot be used; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server, and the token for it: itself, or a file that has it."""

    server: str
    token: str = field(default="", repr=False)
    token_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts by name, and the one in use ("": none)."""

    known: Mapping[str, Context] = field(default_factory=dict)
    current: str = ""

    def with_context(self, name: str, context: Context) -> Contexts:
        """With this one; the first there is becomes the one in use."""
        return replace(self, known={**self.known, name: context}, current=self.current or name)

    def without(self, name: str) -> Contexts:
        """Without this one."""
        self.find(name)
        known = {each: context for each, context in self.known.items() if each != name}
        return replace(self, known=known, current="" if self.current == name else self.current)

    def using(self, name: str) -> Contexts:
        """With another one in use."""
        self.find(name)
        return replace(self, current=name)

    def find(self, name: str) -> Context:
        """The context of that name."""
        if name not in self.known:
            there = f"there are {', '.join(sorted(self.known))}" if self.known else "there is none yet"
            raise ContextsError(
                f"there is no context {name!r}: {there}; `muster context set NAME --server URL` makes one"
            )
        return self.known[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody says in so many words ("": nothing)."""

    server: str = ""
    token: str = field(default="", repr=False)
    token_file: str = ""
    context: str = ""


def said_in(environment: Mapping[str, str]) -> Said:
    """What the environment says."""
    names = {name: f"MUSTER_{name.upper()}" for name in ("server", "token", "token_file", "context")}
    return Said(**{name: environment.get(variable, "") for name, variable in names.items()})


def chosen(said: Said, around: Said, contexts: Contexts, own_token_file: str) -> Context:
    """The server that is meant and the token for it, of what is said, what the environment says, and what is saved."""
    if said.context:
        around = Said()  # a context names both; what the environment says is for somewhere else
    name = said.context or around.context or contexts.current
    context = contexts.find(name) if name else None
    server = said.server or around.server or (context.server if context else DEFAULT_SERVER)
    checked_server(server)
    for level in (said, around):
        if level.token or level.token_file:
            return Context(server=server, token=level.token, token_file="" if level.token else level.token_file)
    if context is not None and _same(context.server, server):
        return replace(context, server=server)
    kept = next((each for _, each in sorted(contexts.known.items()) if _same(each.server, server)), None)
    if kept is not None:
        return replace(kept, server=server)
    return Context(server=server, token_file=own_token_file if is_local(server) else "")


def checked_server(server: str) -> str:
    """The address, if it is one."""
    try:
        parts = urlsplit(server)
        is_fine = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
        _ = parts.port  # raises where it is no number
    except ValueError:
        is_fine = False
    if not is_fine:
        raise InvalidValue(server, _ADDRESS, "server")
    return server


def is_local(server: str) -> bool:
    """Whether a server is on this machine."""
    host = urlsplit(server).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _same(one: str, other: str) -> bool:
    return one.rstrip("/") == other.rstrip("/")


# --- files ---------------------------------------------------------------------------------------


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where contexts are kept."""
    return _base(environment, "XDG_CONFIG_HOME", ".config") / "muster" / "contexts.yaml"


def own_token_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a server of this machine leaves its first token."""
    return _base(environment, "XDG_STATE_HOME", ".local/state") / "muster" / "token"


def _base(environment: Mapping[str, str], variable: str, otherwise: str) -> Path:
    given = environment.get(variable, "")
    return Path(given) if os.path.isabs(given) else Path.home() / otherwise


def meant(said: Said, environment: Mapping[str, str] = os.environ) -> Context:
    """The server that is meant here and now, and its token."""
    own = own_token_path(environment)
    contexts = read_contexts(contexts_path(environment))
    context = chosen(said, said_in(environment), contexts, str(own))
    if not context.token_file:
        return replace(context, token=_checked_token(context.token, f"the token for {context.server}"))
    if context.token_file == str(own) and not own.exists():
        return replace(context, token_file="")  # the server will say that it needs one, if it does
    return replace(context, token=_read_token(context.token_file), token_file="")


def _read_token(path: str) -> str:
    try:
        token = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "not text"
        raise ContextsError(f"the token file {path!r} cannot be read: {reason}") from None
    if not token.strip():
        raise ContextsError(f"the token file {path!r} is empty: one line with a token is needed")
    return _checked_token(token, f"the token in {path!r}")


def _checked_token(token: str, what: str) -> str:
    """The token without what is around it, if it can be one. What is wrong with it is said without showing it."""
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ContextsError(f"{what} is none: a token is one word of letters, digits, '-' and '_'")
    return token


def read_contexts(path: Path) -> Contexts:
    """The contexts that are kept; none, if there is no file."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Contexts()
    except (OSError, UnicodeDecodeError) as err:
        raise ContextsError(f"{path} cannot be read: {err}") from None
    try:
        found = yaml.safe_load(text) or {}
    except (yaml.YAMLError, ValueError, RecursionError) as err:
        raise ContextsError(f"{path}: not YAML: {err}") from None
    return _contexts(found, path)


def _contexts(found: object, path: Path) -> Contexts:
    if not isinstance(found, dict) or not isinstance(found.get("contexts", {}), dict):
        raise ContextsError(f"{path}: must be {{current: NAME, contexts: {{NAME: {{server: URL, tokenFile: FILE}}}}}}")
    known = {
        str(name): _context(value, f"{path}: contexts.{name}") for name, value in found.get("contexts", {}).items()
    }
    contexts = Contexts(known=known)
    current = found.get("current")
    if current and str(current) not in known:
        raise ContextsError(f"{path}: current: there is no context {current!r}")
    return contexts.using(str(current)) if current else contexts


def _context(value: object, where: str) -> Context:
    if not isinstance(value, dict) or "server" not in value:
        raise ContextsError(f"{where}: needs a server: {_ADDRESS}")
    wrong = [str(key) for key in value if key not in _KEYS or not isinstance(value[key], str)]
    if wrong:
        raise ContextsError(f"{where}.{wrong[0]}: only {', '.join(_KEYS)} are allowed, each as text")
    try:
        server = checked_server(value["server"])
    except InvalidValue as err:
        raise ContextsError(f"{where}.{err}") from None
    return Context(server=server, token=value.get("token", ""), token_file=value.get("tokenFile", ""))


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Keep contexts, where only their owner can read them. The file is whole at every moment."""
    import yaml

    known = {name: _plain(context) for name, context in sorted(contexts.known.items())}
    text = yaml.safe_dump({"current": contexts.current or None, "contexts": known}, sort_keys=False)
    target = Path(os.path.realpath(path))  # a link stays a link
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, target)
    except OSError as err:
        draft.unlink(missing_ok=True)
        raise ContextsError(f"{path} cannot be written: {err.strerror or err}") from None


def _plain(context: Context) -> dict[str, str]:
    said = {"server": context.server, "token": context.token, "tokenFile": context.token_file}
    return {key: value for key, value in said.items() if value}
