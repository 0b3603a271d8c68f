"""A cluster: etcd, an API server, controllers, hollow nodes; each a process that can be stopped by itself.

Everything is in one folder and listens on loopback only. Starting returns when the API server is ready.
"""

from __future__ import annotations

import http.client
import json
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType

import msgspec

from muster.kubernetes.dev.hollow import Hollow
from muster.kubernetes.dev.pki import MASTERS, Authority
from muster.kubernetes.dev.processes import Program, ProgramEnded, free_ports
from muster.kubernetes.dev.programs import Programs
from muster.kubernetes.errors import KubernetesError

READY_S = 90.0
LOOK_EVERY_S = 0.05
START_TRIES = 3  # a port that was free may be taken a moment later

ADMIN, CONTROLLERS, SCHEDULER, KUBELETS = (
    "muster-dev-admin",
    "system:kube-controller-manager",
    "system:kube-scheduler",
    "muster-dev-kubelets",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a cluster is made of besides etcd and the API server."""

    hollow: Hollow | None = field(default_factory=Hollow)
    has_controllers: bool = True
    has_scheduler: bool = False
    feature_gates: str = ""  # of the API server, the controllers and the scheduler: "GangScheduling=true"
    runtime_config: str = ""  # kinds that are off by default: "scheduling.k8s.io/v1alpha2=true"
    apiserver_flags: tuple[str, ...] = ()


class Cluster:
    """A cluster in a folder. `with Cluster(programs, folder) as cluster` starts it and leaves no process behind."""

    etcd: Program
    apiserver: Program
    controllers: Program | None = None
    scheduler: Program | None = None
    kubelets: Program | None = None

    def __init__(self, programs: Programs, folder: Path, wanted: Wanted | None = None) -> None:
        self.folder = folder.absolute()
        self.wanted = wanted or Wanted()
        self.authority = Authority(self.folder / "pki")
        self.kubeconfig = self.folder / "kubeconfig"
        self._programs = programs
        self._port = self._etcd_port = 0
        self._started: list[Program] = []

    @property
    def url(self) -> str:
        """Where the API server is."""
        return f"https://127.0.0.1:{self._port}"

    @property
    def etcd_url(self) -> str:
        """Where etcd is."""
        return f"http://127.0.0.1:{self._etcd_port}"

    def __enter__(self) -> Cluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything. The kubeconfig is written last: who finds it finds a cluster that is ready."""
        (self.folder / "logs").mkdir(mode=0o700, parents=True)
        self.authority.make()
        for tried in range(1, START_TRIES + 1):
            try:
                self._start_server()
                break
            except ProgramEnded as err:
                self.stop()
                if tried == START_TRIES or "address already in use" not in str(err):
                    raise
                shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        self._start_others()
        made = self.folder / "kubeconfig.new"
        made.touch(mode=0o600)
        made.write_text(self.authority.kubeconfig(self.url, ADMIN, MASTERS), encoding="utf-8")
        made.replace(self.kubeconfig)

    def stop(self) -> None:
        """End everything, those that need others first. Nothing here is worth a farewell: they are killed."""
        while self._started:
            self._started.pop().kill()

    def stop_apiserver(self) -> None:
        """Kill the API server."""
        self.apiserver.kill()

    def start_apiserver(self) -> None:
        """Start the API server, again in the same place if it was stopped; returns when it is ready."""
        self.apiserver.start()
        self._await("the API server", self._is_ready, self.apiserver, self.etcd)

    def compact(self) -> int:
        """Have etcd forget every version but the last; which that is."""
        status = self._ask_etcd("/v3/maintenance/status", {})
        revision = int(status["header"]["revision"])
        self._ask_etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def must_run(self) -> None:
        """Raise if any of its programs has ended by itself."""
        for program in self._started:
            program.must_run()

    # -- starting --------------------------------------------------------------------------------------------

    def _start_server(self) -> None:
        self._port, self._etcd_port, peers = islice(free_ports(), 3)
        self.etcd = self._begun("etcd", self._programs.etcd, self._etcd_flags(peers))
        self.apiserver = self._begun("kube-apiserver", self._programs.apiserver, self._apiserver_flags())
        self._await("the API server", self._is_ready, self.apiserver, self.etcd)

    def _start_others(self) -> None:
        wanted = self.wanted
        if wanted.has_controllers:
            flags = self._controllers_flags()
            self.controllers = self._begun("kube-controller-manager", self._programs.controllers, flags)
        if wanted.has_scheduler:
            self.scheduler = self._begun("kube-scheduler", self._programs.scheduler, self._scheduler_flags())
        if wanted.hollow is not None:
            self._start_kubelets(wanted.hollow)

    def _start_kubelets(self, hollow: Hollow) -> None:
        asked, ready = self.folder / "hollow.json", self.folder / "hollow.ready"
        asked.write_bytes(msgspec.json.encode(hollow))
        kubeconfig = self._kubeconfig(KUBELETS, MASTERS)
        flags: list[str | Path] = ["-m", "muster.kubernetes.dev.kubelet", kubeconfig, asked, ready]
        self.kubelets = self._begun("hollow-kubelets", Path(sys.executable), flags)
        self._await("the hollow nodes", ready.exists, self.kubelets, self.apiserver, self.etcd)

    def _begun(self, name: str, path: Path, flags: list[str | Path]) -> Program:
        program = Program(name, [path, *flags], self.folder / "logs" / f"{name}.log")
        program.start()
        self._started.append(program)
        return program

    def _await(self, what: str, is_there: Callable[[], bool], *needed: Program) -> None:
        end = time.monotonic() + READY_S
        while not is_there():
            for program in needed:
                program.must_run()
            if time.monotonic() > end:
                raise KubernetesError(f"{what} did not come up within {READY_S:g} s; see {self.folder / 'logs'}")
            time.sleep(LOOK_EVERY_S)

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        asking = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=5, context=context)
        try:
            asking.request("GET", "/readyz")
            return asking.getresponse().status == 200
        except OSError:
            return False
        finally:
            asking.close()

    def _ask_etcd(self, path: str, body: Mapping[str, object]) -> dict[str, dict[str, str]]:
        asking = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=30)
        try:
            asking.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = asking.getresponse()
            content = answer.read()
        finally:
            asking.close()
        if answer.status != 200:
            raise KubernetesError(f"etcd: {content.decode(errors='replace')}")
        found: dict[str, dict[str, str]] = json.loads(content)
        return found

    # -- flags -----------------------------------------------------------------------------------------------

    def _kubeconfig(self, user: str, *groups: str) -> Path:
        path = self.folder / f"{user.rpartition(':')[2]}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(self.authority.kubeconfig(self.url, user, *groups), encoding="utf-8")
        return path

    def _etcd_flags(self, peers: int) -> list[str | Path]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
            "--unsafe-no-fsync",  # nothing here outlives the machine
            "--log-level=warn",
        ]

    def _apiserver_flags(self) -> list[str | Path]:
        pki = self.authority
        return [
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={pki.server_certificate}",
            f"--tls-private-key-file={pki.server_key}",
            f"--client-ca-file={pki.ca}",
            f"--service-account-key-file={pki.service_accounts}",
            f"--service-account-signing-key-file={pki.service_accounts}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={self._unwanted_admission()}",
            "--allow-privileged=true",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=3000",
            "--event-ttl=5m",
            *self._gates(),
            *([f"--runtime-config={self.wanted.runtime_config}"] if self.wanted.runtime_config else []),
            *self.wanted.apiserver_flags,
        ]

    def _controllers_flags(self) -> list[str | Path]:
        heartbeat_s = self.wanted.hollow.heartbeat_s if self.wanted.hollow else 10.0
        return [
            f"--kubeconfig={self._kubeconfig(CONTROLLERS)}",
            f"--authentication-kubeconfig={self._kubeconfig(CONTROLLERS)}",
            f"--service-account-private-key-file={self.authority.service_accounts}",
            f"--root-ca-file={self.authority.ca}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
            f"--node-monitor-grace-period={max(round(5 * heartbeat_s), 2)}s",
            f"--node-monitor-period={max(round(heartbeat_s / 2), 1)}s",
            *self._gates(),
        ]

    def _scheduler_flags(self) -> list[str | Path]:
        return [
            f"--kubeconfig={self._kubeconfig(SCHEDULER)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
            *self._gates(),
        ]

    def _unwanted_admission(self) -> str:
        # Hollow pods mount no tokens, and need not wait for their namespace's account.
        if self.wanted.has_controllers:
            return "ServiceAccount"
        # New nodes would be tainted until a controller sees that they are ready.
        return "ServiceAccount,TaintNodesByCondition"

    def _gates(self) -> list[str | Path]:
        return [f"--feature-gates={self.wanted.feature_gates}"] if self.wanted.feature_gates else []
