"""The same jobs through Slurm, as Debian ships it: one node, this machine, in a scratch folder, by this user.

munged, slurmctld and slurmd are started with a configuration of their own and ended afterwards. Packages that had to be
installed are removed again.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

from bench.measuring import tell
from bench.serving import cpu_s

PACKAGES = ("slurm-wlm", "munge")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES)
PATIENCE_S = 60.0
STOP_S = 60.0  # jobs that are not over by then are left: the rate is known
_LOOK_S = 0.2

# Schedulers as they come: backfill, cores as what is handed out. Without a database for accounting, and without control
# groups, which Muster does not use for these jobs either.
_CONFIGURATION = """ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MinJobAge=3600
SchedulerParameters={parameters}
{node} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES OverSubscribe={sharing} MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """How jobs are submitted, and what differs from how Slurm comes."""

    what: str
    submit: Callable[[int], None]
    parameters: str = "batch_sched_delay=3"  # its default
    sharing: str = "NO"  # its default


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How many jobs were over after so many seconds, and CPU seconds of each daemon."""

    done: int
    took_s: float
    spent: dict[str, float]

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.done / self.took_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What Slurm did, and what is to be said about it."""

    said: str
    version: str = ""
    runs: dict[str, Ran] = field(default_factory=dict)


class Unable(Exception):
    """Slurm cannot be had here, and why."""


def raced(many: int) -> Race:
    """So many jobs, in several ways."""
    try:
        with ExitStack() as stack:
            stack.enter_context(_installed())
            version = _answer("slurmctld", "-V").split()[-1]
            runs = {trial.what: _tried(trial, many) for trial in TRIALS}
    except Unable as err:
        tell(f"no Slurm: {err}")
        return Race(said=f"Slurm was not run: {err}.")
    return Race(
        said=_SAID,
        version=version,
        runs=runs,
    )


@contextmanager
def _installed() -> Iterator[None]:
    """Its programs, from Debian's packages; those that were not there are removed again."""
    if shutil.which("slurmctld") and shutil.which("munged"):
        yield
        return
    command = " ".join(INSTALL)
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Unable(f"it is not installed; as root on Debian: `{command}`")
    before = _packages()
    tell(command)
    try:
        done = subprocess.run(INSTALL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unable(f"`{command}` says: {done.stderr.strip().splitlines()[-1]}")
        yield
    finally:
        if new := sorted(_packages() - before):
            subprocess.run(["apt-get", "purge", "--yes", *new], capture_output=True, check=False)


def _packages() -> set[str]:
    return set(_answer("dpkg-query", "--show", "--showformat", "${Package}\\n").split())


def _tried(trial: Trial, many: int) -> Ran:
    """With daemons of its own, so that none finds what another left."""
    folder = Path(tempfile.mkdtemp(prefix="muster-slurm-"))
    try:
        with _daemons(folder, trial) as daemons:
            return _run(daemons, many, trial)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _daemons(folder: Path, trial: Trial) -> Iterator[dict[str, int]]:
    """munged, slurmctld and slurmd, once the node takes jobs; the process of each."""
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    node = f"{_answer('slurmd', '-C').splitlines()[0]} NodeAddr=127.0.0.1"
    configuration = _CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0],
        ports=_free_ports(),
        folder=folder,
        user=_user(),
        node=node,
        parameters=trial.parameters,
        sharing=trial.sharing,
    )
    (folder / "slurm.conf").write_text(configuration, encoding="utf-8")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    places = [f"--{what}-file={folder}/munge.{what}" for what in ("key", "pid", "log", "seed")]
    with ExitStack() as stack:
        munged = ["munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *places]
        stack.enter_context(_daemon(munged, folder))
        _until(lambda: (folder / "munge.socket").exists(), folder)
        pids = {name: stack.enter_context(_daemon([name, "-D"], folder)) for name in ("slurmctld", "slurmd")}
        _until(lambda: "idle" in _said("sinfo", "--noheader", "--format", "%T"), folder)
        yield pids


@contextmanager
def _daemon(command: list[str], folder: Path) -> Iterator[int]:
    with (folder / f"{command[0]}.out").open("w", encoding="utf-8") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _run(daemons: dict[str, int], many: int, trial: Trial) -> Ran:
    """Submit jobs and look until none is left, or it takes too long; those that are over stay to be counted."""
    before = {name: cpu_s(pid) for name, pid in daemons.items()}
    began = monotonic()
    trial.submit(many)
    while (is_left := bool(_said("squeue", "--noheader"))) and monotonic() - began < STOP_S:
        sleep(_LOOK_S)
    done, took_s = _completed(), monotonic() - began
    if not is_left and done != many:
        raise Unable(f"{done:,} of {many:,} jobs completed")
    tell(f"Slurm, {trial.what}: {done:,} jobs in {took_s:.1f} s")
    return Ran(done=done, took_s=took_s, spent={name: cpu_s(pid) - before[name] for name, pid in daemons.items()})


def _one_by_one(many: int) -> None:
    for _ in range(many):
        _answer("sbatch", "--output", "/dev/null", "--wrap", "true")


def _array(many: int) -> None:
    _answer("sbatch", "--output", "/dev/null", "--array", f"0-{many - 1}", "--wrap", "true")


TRIALS = (
    Trial(what="`sbatch --wrap true` for each", submit=_one_by_one),
    Trial(what="an array", submit=_array),
    Trial(
        what="an array, many at once",
        submit=_array,
        parameters="batch_sched_delay=0",
        sharing="FORCE:16",  # of 4, 16, 50 and 1,000 jobs to a core the fastest
    ),
)
_SAID = f"""Slurm: backfill, cons_tres by core, no accounting, no control groups. As it comes its jobs have a core
each, and its scheduler looks at ends every few seconds (batch_sched_delay). A trial is stopped after {STOP_S:.0f} s,
and what was over by then is counted. In the last trial it is changed for these jobs: nothing is put off
(batch_sched_delay=0), and 16 share a core (OverSubscribe=FORCE:16), the fastest of several such settings."""


def _completed() -> int:
    return len(_said("squeue", "--noheader", "--array", "--states", "COMPLETED", "--format", "%i").split())


def _until(holds: Callable[[], bool], folder: Path) -> None:
    until = monotonic() + PATIENCE_S
    while not holds():
        if monotonic() > until:
            logs = [*folder.glob("*.log"), *folder.glob("*.out")]
            for log in logs:
                print(log.name, log.read_text(errors="replace")[-1000:], sep="\n", file=sys.stderr)
            raise Unable("its daemons do not come up; their logs are on standard error")
        sleep(_LOOK_S)


def _answer(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"`{' '.join(command)}` says: {done.stderr.strip()}")
    return done.stdout.strip()


def _said(*command: str) -> str:
    """What a program says, which may not be able to yet."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
