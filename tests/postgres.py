"""A PostgreSQL of our own, for tests: made anew in a folder of its own, reached by a socket there, stopped afterwards.

It runs as Debian's package would run it (every flush is real). PostgreSQL refuses to run as root, so where the tests
do, it runs as the user `postgres` that the package made.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg

USER = "postgres"
_PR_SET_PDEATHSIG = 1


class Postgres:
    """One server with these settings; `url(database)` is how to reach it. It can be stopped, killed, started again."""

    def __init__(self, **settings):
        self._settings = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.folder = Path(tempfile.mkdtemp(prefix="muster-pg-"))  # short: paths of sockets are at most 107 bytes long
        self._as_user = {"user": USER, "group": USER, "extra_groups": []} if os.geteuid() == 0 else {}
        if self._as_user:
            shutil.chown(self.folder, USER, USER)
        self._run("initdb", "-D", self.data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self._process = None
        self._made = 0

    @property
    def data(self):
        return self.folder / "data"

    def url(self, database):
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        """Start it; returns when it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", self.data, "-k", self.folder, "-c", "listen_addresses=", *self._settings],
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_parent,
                **self._as_user,
            )
        while self._run("pg_isready", "-q", "-h", self.folder, "-d", "postgres", check=False).returncode != 0:
            if self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()}")

    def stop(self, how=signal.SIGINT):
        """Stop it at once, connections or not (SIGINT: in order; SIGQUIT: as in a crash)."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def remove(self):
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder)

    def database(self, template="template0"):
        """A new database; its name."""
        self._made += 1
        name = f"t{self._made}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database):
        self.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def execute(self, statement, database="postgres"):
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _run(self, name, *args, check=True):
        ran = subprocess.run(
            [program(name), *map(str, args)], capture_output=True, text=True, check=False, cwd="/", **self._as_user
        )
        if check and ran.returncode != 0:
            raise RuntimeError(f"{name} failed:\n{ran.stderr}")
        return ran


def program(name):
    """Where a program of PostgreSQL is; Debian keeps those of the server off the PATH."""
    found = [path / name for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    on_path = shutil.which(name)
    for path in (*found, *([on_path] if on_path else [])):
        if os.access(path, os.X_OK):
            return str(path)
    raise RuntimeError(f"{name} is not installed: the tests need PostgreSQL (`make setup` says how)")


def _end_with_parent():
    """A run that is killed leaves no server behind (on Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)
