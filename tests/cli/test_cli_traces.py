"""`muster simulate --trace`: each format with what it needs beside its file, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MUSTER = [sys.executable, "-c", "from muster.cli.main import main; main()"]

SWF = "1 0 -1 10 1 -1 -1 1 20 -1 1 1 1 1 1 -1 -1 -1\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-02 00:00:00,66.0,4,66.0,b\n"
NODES = "sn,cpu_milli,memory_mib,gpu,model\nsmall,8000,8192,1,T4\nlarge,64000,262144,2,P100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "late,1000,1024,1,500,P100,LS,Running,200,260,200\n"
    "never,1000,1024,1,500,,LS,Pending,110,300,\n"
    "first,4000,1024,2,1000,,LS,Succeeded,100,190,130\n"
)
UNTIMED = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,460\nq,1000,1024,1,460\n"
WORKLOAD = "name,time,application,num_replicas,batch_size\nbert-0,5,bert,1,8\n"
PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,8,1.0,0.0\n2,8,0.5,0.0\n"
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,4,8,0.4,0.0\n"
VALIDATION = "progress,iteration,metric,grad_sqr,grad_var\n100,100,1,1.0,0.0\n200,200,1,1.0,0.0\n"
GAVEL = "A\tpython a\tdir\t-n\t1\t3600\t1\t1\t-1.0\t0\nA\tpython a\tdir\t-n\t1\t3600\t2\t1\t-1.0\t0\n"
RATES = {
    "v100": {"('A', 1)": {"null": 1.0}, "('A', 2)": {"null": 1.0}},
    "p100": {"('A', 1)": {"null": 0.5}},
    "k80": {"('A', 1)": {"null": 0.1}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace of each format, with what it needs in its usual place."""
    files = {
        "log.swf": SWF,
        "philly.csv": PHILLY,
        "openb/pods.csv": PODS,
        "openb/untimed.csv": UNTIMED,
        "openb/openb_node_list_gpu_node.csv": NODES,
        "other/nodes.csv": NODES.replace("large", "big"),
        "pollux/workloads/workload.csv": WORKLOAD,
        "pollux/traces/bert/placements.csv": PLACEMENTS,
        "pollux/traces/bert/scalability.csv": SCALABILITY,
        "pollux/traces/bert/validation-8.csv": VALIDATION,
        "gavel/jobs.trace": GAVEL,
        "gavel/physical_cluster_throughputs.json": json.dumps(RATES),
        "other/rates.json": json.dumps({"tpu": {"('A', 1)": {"null": 2.0}, "('A', 2)": {"null": 2.0}}}),
        "config.yaml": "config: {reservations: 0}\nrounds: 30s\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def muster(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MUSTER, "simulate", *args, "-o", "summary"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def told(folder: Path, *args: str) -> dict[str, Any]:
    """By job: where it ran, when it came, started and ended."""
    done = muster(folder, *args)
    assert (done.returncode, done.stderr) == (0, "")
    jobs = json.loads(done.stdout)["jobs"]
    return {name: (*job["nodes"], job["submitted"], job["start"], job.get("end")) for name, job in jobs.items()}


@pytest.mark.parametrize(
    "args, jobs",
    [
        pytest.param(
            ["openb/pods.csv", "--format", "openb"],
            {"first": ("large", 0, 0, 60), "late": ("large", 100, 100, 160)},
            id="pods run as long as they did on the nodes beside them, and who never ran is left out",
        ),
        pytest.param(
            ["openb/pods.csv", "--format", "openb", "--nodes", "other/nodes.csv", "--jobs", "1"],
            {"first": ("big", 0, 0, 60)},
            id="pods on other nodes, only the first",
        ),
        pytest.param(
            ["openb/untimed.csv", "--format", "openb"],
            {"p": ("large", 0, 0, None), "q": ("large", 1, 1, None)},
            id="pods of a list without times come one a second and stay",
        ),
        pytest.param(
            ["openb/untimed.csv", "--format", "openb", "--repeat-to", "7"],
            {
                "p": ("large", 0, 0, None),
                "q": ("large", 1, 1, None),
                "p-2": ("large", 1.5, 1.5, None),
                "q-2": ("large", 2.5, 2.5, None),
                "p-3": ("small", 3, 3, None),
                "q-3": ("small", 4, 4, None),
                "p-4": (4.5, None, None),
            },
            id="when pods stay, it ends with the last one, who waits in vain",
        ),
        pytest.param(
            ["pollux/workloads/workload.csv", "--format", "pollux"],
            {"bert-0": ("node-0", 5, 60, 300)},
            id="training in rounds of a minute, by the measurements beside the workloads",
        ),
        pytest.param(
            ["pollux/workloads/workload.csv", "--format", "pollux", "--nodes", "1x2", "--repeat-to", "2"],
            {"bert-0": ("node-0", 5, 60, 300), "bert-0-2": ("node-0", 5.001, 60, 300)},
            id="training on another machine, and again",
        ),
        pytest.param(
            ["gavel/jobs.trace", "--format", "gavel"],
            {"job-0": ("v100-node", 0, 0, 3600), "job-1": ("v100-node", 0, 0, 3600)},
            id="everyone on the fastest GPUs",
        ),
        pytest.param(
            ["gavel/jobs.trace", "--format", "gavel", "--nodes", "v100=2,p100=1"],
            {"job-0": ("v100-node", 0, 0, 3600), "job-1": ("v100-node", 0, 3600, 7200)},
            id="fewer GPUs, and who needs two waits for them",
        ),
        pytest.param(
            ["gavel/jobs.trace", "--format", "gavel", "--nodes", "tpu=4", "--measured", "other/rates.json"],
            {"job-0": ("tpu-node", 0, 0, 1800), "job-1": ("tpu-node", 0, 0, 1800)},
            id="a kind of GPU that was measured elsewhere",
        ),
        pytest.param(
            ["philly.csv", "--format", "philly", "--nodes", "1x4"],
            {"job-2": ("node-0", 0, 0, 66)},
            id="virtual clusters",
        ),
    ],
)
def test_a_trace_runs_on_what_belongs_to_it(folder: Path, args: list[str], jobs: dict[str, Any]):
    assert told(folder, "--trace", *args) == jobs


def test_a_file_before_the_trace_sets_rounds_and_policy(folder: Path):
    args = ("--trace", "pollux/workloads/workload.csv", "--format", "pollux")

    assert told(folder, "config.yaml", *args) == {"bert-0": ("node-0", 5, 30, 270)}  # heard of sooner


@pytest.mark.parametrize(
    "args, words",
    [
        pytest.param(
            ["--trace", "philly.csv", "--format", "philly", "--queue-by", "user"],
            "--queue-by: 'user': only with --format swf, and this is philly",
            id="queues of a trace that has none",
        ),
        pytest.param(
            ["--trace", "openb/pods.csv", "--format", "openb", "--expected", "exact"],
            "--expected: 'exact': only with --format swf, and this is openb",
            id="run times nobody may tell",
        ),
        pytest.param(
            ["--trace", "log.swf", "--nodes", "4", "--measured", "other/rates.json"],
            "--measured: 'other/rates.json': only with --format pollux or gavel, and this is swf",
            id="measurements for a log",
        ),
        pytest.param(
            ["config.yaml", "--nodes", "64x8"], "--nodes: '64x8': only with --trace", id="a machine without a trace"
        ),
        pytest.param(
            ["config.yaml", "--format", "swf"], "--format: 'swf': only with --trace", id="a format without a trace"
        ),
        pytest.param(
            ["--trace", "openb/pods.csv", "--format", "openb", "--nodes", "64x8"],
            "--nodes: '64x8': the file of nodes, and there is none of that name",
            id="equal nodes, where pods ask for models",
        ),
        pytest.param(
            ["--trace", "other/nodes.csv", "--format", "openb"],
            "--nodes: None: the file of nodes is needed; without this option it is other/openb_node_list_gpu_node.csv",
            id="no nodes beside the pods",
        ),
        pytest.param(
            ["--trace", "openb/openb_node_list_gpu_node.csv", "--format", "openb"],
            "line 1: header: 'sn,cpu_milli,memory_mib,gpu,model' is not allowed: name,cpu_milli",
            id="nodes for pods",
        ),
        pytest.param(
            ["--trace", "pollux/workloads/workload.csv", "--format", "pollux", "--nodes", "v100=8"],
            "--nodes: 'v100=8': NODESxEACH such as 64x8",
            id="kinds of GPU for a workload",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "pollux"],
            "--measured: None: the folder with one folder of step times for each application is needed",
            id="no measurements beside a workload",
        ),
        pytest.param(
            ["--trace", "pollux/workloads/workload.csv", "--format", "pollux", "--measured", "other"],
            "other/bert/placements.csv: cannot be read: No such file",
            id="an application that was not measured",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--nodes", "16x4"],
            "--nodes: '16x4': KIND=GPUS for each kind of GPU, such as v100=8,p100=16,k80=24",
            id="equal nodes for unequal GPUs",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--nodes", "v100=8,v100=8"],
            "--nodes: 'v100=8,v100=8': KIND=GPUS",
            id="a kind twice",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--nodes", "tpu=8"],
            "tpu: nothing was measured on this kind of GPU; there is v100, p100, k80",
            id="a kind nobody measured",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--nodes", "v100=1"],
            "line 2: scale factor: '2' is not allowed: at most the 1 GPUs of a kind there are; see --nodes",
            id="more GPUs than there are of a kind",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--nodes", "p100=4"],
            "line 2: job type: ('A', 2) is not a job type and scale factor that was measured on p100",
            id="a job that was measured elsewhere only",
        ),
        pytest.param(
            ["--trace", "gavel/jobs.trace", "--format", "gavel", "--measured", "config.yaml"],
            "config.yaml: is not JSON",
            id="throughputs that are none",
        ),
        pytest.param(
            ["--trace", "log.swf", "--format", "csv"], "'csv' is not one of 'swf', 'philly', 'openb'", id="no format"
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_allowed(folder: Path, args: list[str], words: str):
    done = muster(folder, *args)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "file, text, args, words",
    [
        pytest.param(
            "openb/pods.csv",
            PODS.replace("190,130", "120,130"),
            ["--format", "openb"],
            "openb/pods.csv: line 4: deletion_time: '120' is not allowed: a number from 130 on",
            id="a pod that went before it ran",
        ),
        pytest.param(
            "openb/pods.csv",
            PODS.replace(",260,200", ""),
            ["--format", "openb"],
            "line 2: a line of this list has 11 fields, this line has 9",
            id="a pod cut off",
        ),
        pytest.param(
            "openb/pods.csv",
            PODS.replace(",scheduled_time", "").replace(",130\n", "\n"),
            ["--format", "openb"],
            "scheduled_time beside creation_time",
            id="a list that says when pods came, not when they ran",
        ),
        pytest.param(
            "pollux/workloads/workload.csv",
            WORKLOAD.replace(",1,8", ",65,8"),
            ["--format", "pollux"],
            "line 2: num_replicas: '65' is not allowed: at most 64, the GPUs there are; see --nodes",
            id="more replicas than GPUs",
        ),
        pytest.param(
            "gavel/jobs.trace",
            "\n" + GAVEL.replace("3600", "x", 1),
            ["--format", "gavel"],
            "gavel/jobs.trace: line 2: total steps: 'x' is not allowed: a number from 1 on",
            id="steps that are no number",
        ),
        pytest.param(
            "gavel/physical_cluster_throughputs.json",
            '{"v100": [1]}',
            ["--format", "gavel", "--nodes", "v100=1"],
            "is not a map of kinds of GPU",
            id="throughputs of another shape",
        ),
        pytest.param("openb/pods.csv", UNTIMED[:44], ["--format", "openb"], "has no jobs that ran", id="no pod at all"),
    ],
)
def test_a_bad_line_is_named_by_the_command(folder: Path, file: str, text: str, args: list[str], words: str):
    (folder / file).write_text(text, encoding="utf-8")
    trace = {"openb": "openb/pods.csv", "pollux": "pollux/workloads/workload.csv", "gavel": "gavel/jobs.trace"}

    done = muster(folder, "--trace", trace[args[1]], *args)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["openb/pods.csv", "other/nodes.csv"])
def test_a_report_takes_the_place_of_nothing_that_is_read(folder: Path, target: str):
    before = (folder / target).read_text(encoding="utf-8")

    done = muster(
        folder, "--trace", "openb/pods.csv", "--format", "openb", "--nodes", "other/nodes.csv", "--report", target
    )

    assert (done.returncode, done.stderr) == (2, f"--report {target}: that is what is to be simulated\n")
    assert (folder / target).read_text(encoding="utf-8") == before


CROWDED = "".join(
    f"{number} {number // 3} -1 {1 + number * 7 % 31} {1 + number % 5} -1 -1 {1 + number % 5} {20 + number * 7 % 31} "
    f"-1 1 {number % 4} 1 -1 -1 -1 -1 -1\n"
    for number in range(1, 200)
)


@pytest.mark.parametrize(
    "args, is_same",
    [
        pytest.param(["--no-reasons", "--every-turn"], True, id="turn by turn"),
        pytest.param(["--no-reasons", "--check"], True, id="with every plan checked"),
        pytest.param(["--reasons"], False, id="with reasons, which are told as well"),
    ],
)
def test_without_reasons_the_same_is_decided_and_told(folder: Path, args: list[str], is_same: bool) -> None:
    (folder / "crowded.swf").write_text(CROWDED, encoding="utf-8")
    log = ["--trace", "crowded.swf", "--nodes", "8", "--queue-by", "user"]

    brief, in_full = muster(folder, *log, "--no-reasons"), muster(folder, *log, *args)

    assert (brief.returncode, brief.stderr) == (in_full.returncode, in_full.stderr) == (0, "")
    assert (brief.stdout == in_full.stdout) is is_same
    assert json.loads(brief.stdout)["totals"] == json.loads(in_full.stdout)["totals"]
    assert json.loads(brief.stdout)["totals"]["meanWait"] > 60
