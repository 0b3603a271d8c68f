"""The behaviour cases of specialisation: MCC rows of section 6.1, on the document's own example."""

from __future__ import annotations

import pytest
import yaml

from muster.openpai.jobfile import parse
from muster.openpai.names import LEGAL, MOST_NAME
from muster.openpai.specialise import specialise
from muster.openpai.writing import to_yaml

URI = "https://pai.example.org:443/x"

FILE = """
protocolVersion: super-2
name: job
secrets:
  token-a: first
  token-b: second
  mine: third
taskRoles:
  main:
    resourcePerInstance:
      gpu: <% $mcc.gpuNum %>
    commands: ["train --lr <% $parameters.lr %> --gpus <% $mcc.gpuNum %>"]
extra:
  com.microsoft.pai.runtimeplugin:
    - plugin: teamwiase_storage
      parameters:
        storageConfigNames: <% $mcc.storageConfigs %>
    - plugin: super_scheduler
      parameters:
        clusters:
          a: {uri: https://a.example.org, user: ada}
          b: {uri: https://b.example.org, user: ada}
        guardTimeRunning: 10
        timeScale: 1
        params:
          gpuNum: {a: 4, b: 8}
          storageConfigs: {a: [one, two], b: [three]}
"""


def job(alias="a", text=FILE):
    """What the cluster gets, as it reads it: through the YAML that is sent."""
    return yaml.safe_load(to_yaml(specialise(parse(text), alias)))


@pytest.mark.parametrize(
    "question, answer",
    [
        pytest.param(
            lambda: (job()["protocolVersion"], job()["name"]),
            ("2", "job-a"),
            id="MCC-1 a job for one cluster, named after it",
        ),
        pytest.param(
            lambda: job()["taskRoles"]["main"]["resourcePerInstance"]["gpu"],
            4,
            id="MCC-3 a number stays a number",
        ),
        pytest.param(
            lambda: job()["extras"]["com.microsoft.pai.runtimeplugin"][0]["parameters"]["storageConfigNames"],
            ["one", "two"],
            id="MCC-4 a list stays a list",
        ),
        pytest.param(
            lambda: job()["taskRoles"]["main"]["commands"],
            ["train --lr <% $parameters.lr %> --gpus 4"],
            id="MCC-6 what is not ours is left for the cluster to resolve",
        ),
        pytest.param(
            lambda: job()["secrets"],
            {"mine": "third"},
            id="MCC-7 tokens of clusters reach none of them",
        ),
        pytest.param(
            lambda: [plugin["plugin"] for plugin in job()["extras"]["com.microsoft.pai.runtimeplugin"]],
            ["teamwise_storage"],
            id="MCC-8 the plugin that says where the job is raced is taken out",
        ),
    ],
)
def test_a_specialised_job(question, answer):
    assert question() == answer


@pytest.mark.parametrize(
    "alias, begins",
    [
        pytest.param(URI, "job-https-pai-example-org-443-x-", id="MCC-2 a URI is made a legal part of the name"),
        pytest.param("x" * 300, "job-xxx", id="MCC-2 a name that is too long is cut"),
    ],
)
def test_the_name_of_a_specialised_job(alias, begins):
    text = FILE.replace(
        "          a: {uri: https://a.example.org", f"          '{alias}': {{uri: https://a.example.org"
    )
    text = text.replace("gpuNum: {a: 4", f"gpuNum: {{'{alias}': 4").replace("{a: [one", f"{{'{alias}': [one")

    name = job(alias, text)["name"]

    assert name.startswith(begins)
    assert LEGAL.fullmatch(name)
    assert len(name) <= MOST_NAME
    assert name != job("b", text)["name"]
