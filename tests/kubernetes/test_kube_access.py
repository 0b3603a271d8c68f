"""Who we are and whom we believe, on a real API server; and what kubeconfigs can say."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube import Shared, a_client, run

from muster.kubernetes.access import Access, from_kubeconfig, in_cluster
from muster.kubernetes.credentials import Given, in_file, written
from muster.kubernetes.errors import NoCredentials, Unauthorised, Unreachable
from muster.kubernetes.kinds import Kind
from muster.kubernetes.objects import Plain
from muster.model.errors import InvalidValue

ACCOUNTS = Kind(type=Plain, plural="serviceaccounts", version="v1")
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def whoami(access: Access) -> str:
    """As whom the server sees us."""

    async def ask() -> str:
        async with a_client(access) as client:
            answer = await client.request("POST", REVIEWS, body={"apiVersion": "authentication.k8s.io/v1"})
            return str(json.loads(answer)["status"]["userInfo"]["username"])

    return run(ask())


def a_token(shared: Shared, namespace: str, account: str) -> str:
    """A token of a new service account, as a kubelet would hand it to a pod."""

    async def ask() -> str:
        async with a_client(shared.access) as client:
            await client.create(ACCOUNTS, {"metadata": {"name": account}}, namespace)
            body = {"apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 3600}}
            path = ACCOUNTS.path(namespace, account, "token")
            return str(json.loads(await client.request("POST", path, body=body))["status"]["token"])

    return run(ask())


def written_kubeconfig(folder: Path, shared: Shared, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig of the shared cluster with another user."""
    document = yaml.safe_load(shared.kubeconfig.read_text(encoding="utf-8"))
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"].update(cluster)
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def a_plugin(folder: Path, status: dict[str, Any] | None, code: int = 0) -> Path:
    """A program that hands out credentials, and writes down each time that it runs what it was told."""
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")
    path = folder / "plugin"
    path.write_text(
        f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" >> '{folder}/runs'\necho no luck >&2\n"
        f"cat '{folder}/answer.json'\nexit {code}\n",
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def an_exec(command: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": command, **more}}


def test_a_client_certificate_is_shown(shared: Shared) -> None:
    assert whoami(shared.access) == "muster-dev-admin"


def test_a_token_in_a_kubeconfig_is_sent(shared: Shared, namespace: str, tmp_path: Path) -> None:
    path = written_kubeconfig(tmp_path, shared, {"token": a_token(shared, namespace, "robot")})

    assert whoami(from_kubeconfig([path])) == f"system:serviceaccount:{namespace}:robot"


def test_a_token_file_that_was_renewed_is_read_again_when_the_old_token_is_refused(
    shared: Shared, namespace: str, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("nonsense", encoding="utf-8")
    path = written_kubeconfig(tmp_path, shared, {"tokenFile": "token"})  # beside the kubeconfig

    async def story() -> str:
        async with a_client(from_kubeconfig([path])) as client:
            with pytest.raises(Unauthorised):
                await client.request("POST", REVIEWS, body={"apiVersion": "authentication.k8s.io/v1"})
            token.write_text(fresh, encoding="utf-8")
            answer = await client.request("POST", REVIEWS, body={"apiVersion": "authentication.k8s.io/v1"})
            return str(json.loads(answer)["status"]["userInfo"]["username"])

    fresh = a_token(shared, namespace, "renewed")

    assert run(story()) == f"system:serviceaccount:{namespace}:renewed"


def test_a_token_file_is_read_again_after_a_minute(tmp_path: Path) -> None:
    """A token that is renewed in time is never refused: nobody would look into the file again."""
    token, now = tmp_path / "token", [0.0]
    credentials = Given(token=in_file(token), clock=lambda: now[0])
    seen = []
    for at, text in ((0.0, "first"), (59.0, "second"), (61.0, "third"), (100.0, "fourth")):
        now[0] = at
        token.write_text(f"{text}\n", encoding="utf-8")
        seen.append(run(credentials.proof()).token)

    assert seen == ["first", "first", "third", "third"]


def test_inside_a_pod_the_mounted_token_and_authority_are_used(shared: Shared, namespace: str, tmp_path: Path) -> None:
    assert shared.access.ca is not None
    (tmp_path / "token").write_text(a_token(shared, namespace, "inside"), encoding="utf-8")
    (tmp_path / "ca.crt").write_text(shared.access.ca(), encoding="utf-8")
    (tmp_path / "namespace").write_text(namespace, encoding="utf-8")
    host, port = shared.access.server.removeprefix("https://").split(":")

    access = in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, tmp_path)

    assert access.namespace == namespace
    assert whoami(access) == f"system:serviceaccount:{namespace}:inside"


@pytest.mark.parametrize("kind", ["token", "certificate"])
def test_a_plugin_hands_out_credentials_and_runs_once(
    shared: Shared, namespace: str, tmp_path: Path, kind: str
) -> None:
    if kind == "token":
        handed, name = {"token": a_token(shared, namespace, "plugged")}, f"system:serviceaccount:{namespace}:plugged"
    else:
        certificate, key = shared.authority.user("plugged", "robots")
        handed, name = {"clientCertificateData": certificate.decode(), "clientKeyData": key.decode()}, "plugged"
    a_plugin(tmp_path, {**handed, "expirationTimestamp": "2199-01-01T00:00:00Z"})
    path = written_kubeconfig(tmp_path, shared, an_exec("./plugin", provideClusterInfo=True))

    async def ask_often() -> set[str]:
        names = set()
        async with a_client(from_kubeconfig([path])) as client:
            for _ in range(5):
                answer = await client.request("POST", REVIEWS, body={"apiVersion": "authentication.k8s.io/v1"})
                names.add(json.loads(answer)["status"]["userInfo"]["username"])
        return names

    assert run(ask_often()) == {name}
    (told,) = (tmp_path / "runs").read_text(encoding="utf-8").splitlines()
    assert json.loads(told)["spec"]["cluster"]["server"] == shared.access.server


def test_a_plugin_is_run_again_when_what_it_handed_out_has_expired(
    shared: Shared, namespace: str, tmp_path: Path
) -> None:
    token = a_token(shared, namespace, "short")
    a_plugin(tmp_path, {"token": token, "expirationTimestamp": "2020-01-01T00:00:00Z"})
    path = written_kubeconfig(tmp_path, shared, an_exec("./plugin"))
    access = from_kubeconfig([path])

    for _ in range(2):
        assert whoami(access) == f"system:serviceaccount:{namespace}:short"

    assert len((tmp_path / "runs").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    "status, code, words",
    [
        pytest.param({"token": "x"}, 3, "ended with 3: no luck", id="a plugin that fails says why"),
        pytest.param({}, 0, "neither a token nor a certificate", id="a plugin that hands out nothing is refused"),
        pytest.param({"clientCertificateData": "x"}, 0, "without a key", id="a certificate without a key is no use"),
    ],
)
def test_plugins_that_are_no_help(
    shared: Shared, tmp_path: Path, status: dict[str, Any], code: int, words: str
) -> None:
    a_plugin(tmp_path, status, code)
    path = written_kubeconfig(tmp_path, shared, an_exec("./plugin"))

    with pytest.raises(NoCredentials, match=words):
        whoami(from_kubeconfig([path]))


def test_a_plugin_that_is_not_installed_shows_its_hint(shared: Shared, tmp_path: Path) -> None:
    path = written_kubeconfig(tmp_path, shared, an_exec("no-such-plugin", installHint="get it from the shop"))

    with pytest.raises(NoCredentials, match=r"no-such-plugin cannot be run.*get it from the shop"):
        whoami(from_kubeconfig([path]))


@pytest.mark.parametrize(
    "change, is_believed",
    [
        pytest.param({"ca": None}, False, id="a server that the system does not know is not believed"),
        pytest.param({"ca": None, "is_verified": False}, True, id="unless verification is switched off"),
        pytest.param({"server_name": "kubernetes.default.svc"}, True, id="its certificate may be made out to a name"),
        pytest.param({"server_name": "elsewhere.example"}, False, id="but not to any name"),
    ],
)
def test_servers_are_verified(shared: Shared, change: dict[str, Any], is_believed: bool) -> None:
    access = replace(shared.access, **change)
    if is_believed:
        assert whoami(access) == "muster-dev-admin"
    else:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            whoami(access)


def test_a_certificate_that_is_renewed_is_shown_from_then_on(shared: Shared, tmp_path: Path) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"
    credentials = Given(certificate=in_file(certificate), key=in_file(key))
    access = replace(shared.access, credentials=credentials)

    async def story() -> list[str]:
        names = []
        async with a_client(access) as client:
            for name in ("before", "after"):
                certificate_pem, key_pem = shared.authority.user(name)
                certificate.write_bytes(certificate_pem)
                key.write_bytes(key_pem)
                credentials.forget()
                answer = await client.request("POST", REVIEWS, body={"apiVersion": "authentication.k8s.io/v1"})
                names.append(json.loads(answer)["status"]["userInfo"]["username"])
        return names

    assert run(story()) == ["before", "after"]


def test_what_is_no_certificate_is_said_before_anything_is_sent(shared: Shared) -> None:
    access = replace(shared.access, credentials=Given(certificate=written("nonsense"), key=written("nonsense")))

    with pytest.raises(NoCredentials, match="client certificate or its key is wrong"):
        whoami(access)


def _edit(document: dict[str, Any], path: str, value: Any) -> None:
    *way, last = path.split(".")
    at: Any = document
    for part in way:
        at = at[int(part)] if part.isdigit() else at[part]
    at[int(last) if last.isdigit() else last] = value


@pytest.mark.parametrize(
    "path, value, words",
    [
        pytest.param("current-context", "", r"current-context: '': a context must be named", id="no context is chosen"),
        pytest.param("current-context", "x", r"context: 'x': there is c", id="the chosen context is not there"),
        pytest.param("contexts.0.context.cluster", "x", r"cluster: 'x': there is c", id="its cluster is not there"),
        pytest.param("contexts.0.context.user", "x", r"user: 'x': there is c", id="its user is not there"),
        pytest.param("clusters.0.cluster.server", "ftp://x", r"clusters\.c\.server: 'ftp", id="a server without https"),
        pytest.param(
            "clusters.0.cluster.server", 7, r"clusters\.c\.server: 7: must be a text", id="a number for a text"
        ),
        pytest.param("clusters.0.cluster.proxy-url", "socks5://x", r"proxy-url: 'socks5", id="a proxy we cannot use"),
        pytest.param("clusters.0.cluster.certificate-authority-data", "%", r"-data: .*base64", id="data not in base64"),
        pytest.param("users.0.user", {"auth-provider": {"name": "x"}}, r"auth-provider: .*not supp", id="an old login"),
        pytest.param("users.0.user", {"as": "x"}, r"users\.c\.as: .*not supported", id="impersonation"),
        pytest.param("users.0.user", {"client-key-data": ""}, None, id="an empty text is none"),
        pytest.param("users.0.user", {"client-key": "k"}, r"come together", id="a key without a certificate"),
        pytest.param("users.0.user", an_exec(""), r"exec\.command: ''", id="a plugin without a command"),
        pytest.param(
            "users.0.user", {"exec": {"command": "x", "apiVersion": "v1"}}, r"apiVersion: 'v1'", id="a protocol"
        ),
        pytest.param(
            "users.0.user", an_exec("x", interactiveMode="Always"), r"interactiveMode", id="a plugin that asks"
        ),
        pytest.param("users.0", "x", r"users: 'x': must have a name and a user", id="an entry that is a text"),
    ],
)
def test_kubeconfigs_that_are_wrong_say_where(tmp_path: Path, path: str, value: Any, words: str | None) -> None:
    document: dict[str, Any] = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1"}}],
        "users": [{"name": "c", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    _edit(document, path, value)
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")

    if words is None:
        assert from_kubeconfig([file]).server == "https://127.0.0.1"
        return
    with pytest.raises(InvalidValue, match=words):
        from_kubeconfig([file])


def test_several_kubeconfigs_are_one_and_the_first_counts(shared: Shared, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(
        yaml.safe_dump({"contexts": [{"name": "mine", "context": {"cluster": "muster-dev", "user": "muster-dev"}}]}),
        encoding="utf-8",
    )
    second.write_text(
        yaml.safe_dump({"clusters": [{"name": "muster-dev", "cluster": {"server": "https://wrong"}}]}),
        encoding="utf-8",
    )

    access = from_kubeconfig([first, shared.kubeconfig, tmp_path / "absent", second], "mine")

    assert whoami(access) == "muster-dev-admin"
