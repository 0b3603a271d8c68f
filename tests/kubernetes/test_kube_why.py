"""`kubectl muster why POD`: as a real kubectl calls it, and what it says of pods however they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from kube import Shared, a_client, a_pod, pod_when, run
from typer.testing import CliRunner

from muster.cli.kubectl import app
from muster.kubernetes.dev.programs import programs
from muster.kubernetes.kinds import CLAIMS, PODS, STORAGE_CLASSES

Plugin = Callable[..., Result]


@pytest.fixture
def plugin(shared: Shared, namespace: str) -> Plugin:
    """The plugin in the namespace of this test; `kubeconfig` of another user may be given."""

    def call(*words: str, kubeconfig: Path | None = None) -> Result:
        environment = {"KUBECONFIG": str(kubeconfig or shared.kubeconfig)}
        return CliRunner().invoke(app, [*words, "-n", namespace], env=environment)

    return call


def a_pod_that_asks(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    made = a_pod(name, "sleep", "infinity", **{"schedulerName": "muster", **spec})
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return made


def make(shared: Shared, namespace: str, *pods: dict[str, Any]) -> None:
    async def story() -> None:
        async with a_client(shared.access) as client:
            for pod in pods:
                await client.create(PODS, pod, namespace)

    run(story())


def is_told(shared: Shared, namespace: str, name: str, reason: str, message: str) -> None:
    """What a scheduler would have written."""

    async def story() -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        async with a_client(shared.access) as client:
            status = {"status": {"conditions": [condition]}}
            await client.patch(PODS, name, status, namespace, subresource="status")

    run(story())


def test_kubectl_finds_it_and_a_pod_that_waits_hears_its_condition_its_reason_the_numbers_and_what_would_help(
    shared: Shared, namespace: str, plugin: Plugin
) -> None:
    make(shared, namespace, a_pod_that_asks("wide", "17"))
    is_told(shared, namespace, "wide", "NO_ROOM", "there is no room")

    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(shared.kubeconfig)}
    command = [str(programs().kubectl), "muster", "why", "wide", "-n", namespace]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    said = done.stdout.replace("\n", " ")
    answer = json.loads(plugin("why", "pod/wide", "-o", "json").stdout)

    assert said.startswith(f"{namespace}/wide: PodScheduled is False")
    for part in (
        "NO_ROOM: there is no room.",
        f"{namespace}/wide (1 task of 17 cpu, queue {namespace}) has waited for",
        "NEVER_FITS: fits no cluster, even an empty one",
        "lack cpu: 16 free at most, 17 asked",
        "It would start at once with",
        "It is looked at again when",
    ):
        assert part in said
    assert (answer["state"], answer["condition"]["reason"], answer["reason"]) == ("waiting", "NO_ROOM", "NEVER_FITS")
    assert answer["facts"]


@pytest.mark.parametrize(
    "spec, state, said",
    [
        pytest.param({"nodeName": "node-1"}, "bound", "it is bound to node-1", id="bound"),
        pytest.param(
            {"schedulerName": "default-scheduler"}, "other", "spec.schedulerName is default-scheduler", id="not ours"
        ),
        pytest.param({"schedulingGates": [{"name": "quota"}]}, "gated", "gates are removed: quota", id="gates"),
        pytest.param(
            {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]},
            "held",
            "UNSUPPORTED: spec.resourceClaims",
            id="not honoured",
        ),
        pytest.param(
            {"schedulerName": "kar-scheduler"}, "held", "SCHEDULING_SPEC_MISSING: there is no", id="no SchedulingSpec"
        ),
        pytest.param({}, "starting", "As things are now it starts on node-", id="there is room"),
    ],
)
def test_a_pod_that_need_not_wait_for_room(
    shared: Shared, namespace: str, plugin: Plugin, spec: dict[str, Any], state: str, said: str
) -> None:
    make(shared, namespace, a_pod_that_asks("one", "100m", **spec))

    answer = json.loads(plugin("why", "one", "-o", "json").stdout)

    assert (answer["state"], said in answer["text"]) == (state, True), answer


def test_a_pod_whose_volume_is_still_to_be_made(shared: Shared, namespace: str, plugin: Plugin) -> None:
    async def story() -> None:
        late = {"provisioner": "disks.example.dev", "volumeBindingMode": "WaitForFirstConsumer"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "data"}, "spec": {**spec, "storageClassName": namespace}}
        async with a_client(shared.access) as client:
            await client.create(STORAGE_CLASSES, {"metadata": {"name": namespace}, **late})
            await client.create(CLAIMS, claim, namespace)

    run(story())
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    make(shared, namespace, a_pod_that_asks("one", "100m", volumes=volumes))

    answer = json.loads(plugin("why", "one", "-o", "json").stdout)

    assert (answer["state"], "once volumes are made there for its claims data" in answer["text"]) == ("starting", True)


def test_a_pod_that_is_over(shared: Shared, namespace: str, plugin: Plugin) -> None:
    make(shared, namespace, a_pod("short", "true", node="node-0"))

    async def story() -> None:
        async with a_client(shared.access) as client:
            await pod_when(client, namespace, "short", lambda pod: pod.is_over)

    run(story())

    assert plugin("why", "short").stdout == f"{namespace}/short: It has succeeded.\n"


def test_who_may_only_see_the_pod_hears_its_condition(
    shared: Shared, namespace: str, plugin: Plugin, tmp_path: Path
) -> None:
    make(shared, namespace, a_pod_that_asks("wide", "17"))
    is_told(shared, namespace, "wide", "NO_ROOM", "there is no room")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(shared.authority.kubeconfig(shared.access.server, "reader"))
    admin = [str(programs().kubectl), "--kubeconfig", str(shared.kubeconfig), "-n", namespace, "create"]
    for words in (
        ["role", "reader", "--verb=get", "--resource=pods"],
        ["rolebinding", "reader", "--role=reader", "--user=reader"],
    ):
        subprocess.run([*admin, *words], check=True, capture_output=True)

    done = plugin("why", "wide", kubeconfig=kubeconfig)

    assert "NO_ROOM: there is no room." in done.stdout
    assert "only by those who may list what decides" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    "words, code, said",
    [
        pytest.param(["why", "nobody"], 1, "there is no pod nobody in namespace", id="no such pod"),
        pytest.param(["why", "a/b"], 2, "POD: 'a/b'", id="not a name"),
        pytest.param(["why", "p", "--context", "nowhere"], 2, "nowhere", id="no such context"),
        pytest.param(["how", "p"], 2, "No such command 'how'", id="no such command"),
    ],
)
def test_bad_input_is_named(plugin: Plugin, words: list[str], code: int, said: str) -> None:
    done = plugin(*words)

    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr
