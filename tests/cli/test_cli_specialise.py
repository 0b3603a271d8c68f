"""`muster specialise` as people and scripts meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from muster.cli.main import app

TRAIN = Path(__file__).parents[2] / "examples" / "openpai" / "train.yaml"


def muster(*args):
    return CliRunner().invoke(app, list(map(str, args)))


def test_yaml_and_json_say_the_same():
    as_yaml = muster("specialise", TRAIN, "--cluster", "v100")
    as_json = muster("specialise", TRAIN, "--cluster", "v100", "-o", "json")

    assert (as_yaml.exit_code, as_json.exit_code) == (0, 0)
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)
    assert json.loads(as_json.stdout)["name"] == "train-resnet-v100"
    assert "secret" not in as_yaml.stdout


def test_an_unknown_alias_is_named_with_those_there_are():
    done = muster("specialise", TRAIN, "--cluster", "p100")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "--cluster: 'p100': must be a cluster of the file: v100, k80\n"


@pytest.mark.parametrize(
    "change, said",
    [
        pytest.param(
            ("{v100: 2, k80: 4}", "{v100: 2}"), "parameter gpuNum has no value for cluster 'k80'", id="a value"
        ),
        pytest.param(("super-2", "2"), "line 4: protocolVersion: '2' is not allowed: super-2", id="the version"),
        pytest.param(('uri: "https://k80', 'url: "https://k80'), "the keys here are uri, user, priority", id="a key"),
    ],
)
def test_what_is_missing_or_wrong_is_said_and_nothing_printed(tmp_path, change, said):
    path = tmp_path / "job.yaml"
    path.write_text(TRAIN.read_text().replace(*change))

    done = muster("specialise", path, "--cluster", "v100")

    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_a_file_that_cannot_be_read_is_said_so():
    done = muster("specialise", "/no/such/file.yaml", "--cluster", "a")

    assert done.exit_code == 2
    assert "/no/such/file.yaml" in done.stderr
