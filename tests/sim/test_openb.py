"""The reader of Alibaba's trace of shared GPUs: what it reads, and how it refuses what it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.model.nodes import Request
from muster.model.resources import CPU, GPU, MEMORY, Resources
from muster.sim.traces import openb
from muster.sim.traces.lines import TraceError

MIB = 1 << 20
NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
SHORT = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"


@pytest.fixture
def file(tmp_path: Path):
    def written(text: str) -> str:
        (tmp_path / "trace.csv").write_text(text, encoding="utf-8")
        return str(tmp_path / "trace.csv")

    return written


def test_nodes_have_what_the_file_says_and_their_model_as_a_label(file) -> None:
    first, second = openb.nodes(file(NODES + "n-0,64000,262144,2,P100\nn-1,8000,1024,0,\n"), "c", {"n-1": "other"})

    assert first.allocatable == Resources.of({CPU: 64_000, MEMORY: 262_144 * MIB, GPU: 2000})
    assert (first.name, first.cluster, first.labels) == ("n-0", "c", {openb.MODEL: "P100"})
    assert (second.name, second.labels, second.has_gpus) == ("other", {}, False)


@pytest.mark.parametrize(
    "text, request_, takes, leaves",
    [
        pytest.param(
            SHORT + "p,6000,12288,1,460\n",
            Request.of({CPU: 6000, MEMORY: 12_288 * MIB, GPU: 1000}, gpu_milli=460),
            ("T4", "P100"),
            (),
            id="a part of any device, in a list without further columns",
        ),
        pytest.param(
            PODS + "p,6000,0,2,1000,P100|T4,LS,Running,0,1,0\n",
            Request.of({CPU: 6000, GPU: 2000}),
            ("T4", "P100"),
            ("V100",),
            id="whole devices of one of two models",
        ),
        pytest.param(
            PODS + "p,6000,1,0,0,,BE,Failed,0,1,\n",
            Request.of({CPU: 6000, MEMORY: MIB}),
            ("T4",),
            (),
            id="no device",
        ),
        pytest.param(
            PODS + "p,6000,1,0,0,T4,BE,Failed,0,1,\n",
            Request.of({CPU: 6000, MEMORY: MIB}),
            ("V100",),
            (),
            id="a model means nothing to who asks for no device",
        ),
    ],
)
def test_a_pod_asks_for_what_the_file_says(file, text, request_, takes, leaves) -> None:
    (pod,) = openb.pods(file(text))
    group = pod.profile.groups[0]

    assert pod.request == request_
    assert pod.milli == request_.gpus * request_.gpu_milli
    assert [group.constraint.refuses("n", {openb.MODEL: model}, ()) for model in takes] == [None] * len(takes)
    assert [group.constraint.refuses("n", {openb.MODEL: model}, ()) for model in leaves] == ["affinity"] * len(leaves)


def test_equal_pods_share_a_profile(file) -> None:
    one, other = openb.pods(file(SHORT + "a,1,1,1,500\nb,1,1,1,500\n"))

    assert one.profile is other.profile


def test_when_pods_came_and_went_is_not_read(file) -> None:
    early = list(openb.pods(file(PODS + "p,6000,1,1,500,,LS,Running,0,10,0\n")))
    late = list(openb.pods(file(PODS + "p,6000,1,1,500,,BE,Failed,777,x,\n")))

    assert early == late


@pytest.mark.parametrize(
    "text, line, field, allowed",
    [
        pytest.param("", 1, "header", "name,cpu_milli", id="an empty file"),
        pytest.param("a,b\n", 1, "header", "name,cpu_milli", id="another kind of file"),
        pytest.param(SHORT + "p,1,1,1\n", 2, "", "5 fields", id="a line that is cut off"),
        pytest.param(SHORT + "p,1,1,1,500\nq,x,1,1,500\n", 3, "cpu_milli", "a number from 0", id="no number"),
        pytest.param(SHORT + "p,1,-1,1,500\n", 2, "memory_mib", "a number from 0", id="less than nothing"),
        pytest.param(SHORT + "p,1,1,1,0\n", 2, "gpu_milli", "a number from 1", id="nothing of a device"),
        pytest.param(SHORT + "p,1,1,1,1001\n", 2, "gpu_milli", "at most 1000", id="more than a device has"),
        pytest.param(SHORT + ",1,1,1,1000\n", 2, "name", "a name", id="no name"),
    ],
)
def test_a_bad_line_is_named_with_its_number_and_field(file, text, line, field, allowed) -> None:
    with pytest.raises(TraceError) as refused:
        list(openb.pods(file(text)))
    (problem,) = refused.value.problems
    assert (problem.line, problem.path) == (line, field)
    assert allowed in problem.message
