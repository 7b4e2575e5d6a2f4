"""A PostgreSQL for the tests: on a Unix socket, in a directory that is removed with it."""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

START_S = 30
# Any user of the tests may act as anyone there; a commit waits for the disk only on request.
SETTINGS = {"listen_addresses": "", "max_connections": "100", "shared_buffers": "16MB"}


def programs():
    """The directory of the newest version's programs; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[-3])
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).resolve().parent if on_path else None


class Postgres:
    def __init__(self, *, sync=False):
        self.bin = programs()
        if self.bin is None:
            if os.environ.get("CI"):
                raise AssertionError("no PostgreSQL: apt-get install postgresql")
            pytest.skip("no PostgreSQL: apt-get install postgresql")
        self.root = Path(tempfile.mkdtemp(prefix="lbd-pg-"))
        self._user = None if os.getuid() else pwd.getpwnam("postgres")  # it refuses to be root
        if self._user is not None:
            os.chown(self.root, self._user.pw_uid, self._user.pw_gid)
        self.root.chmod(0o755)
        self._numbers = itertools.count(1)
        self._process = None
        self._settings = {**SETTINGS, "fsync": "on" if sync else "off"}
        own = self._run("initdb", "-D", self.root / "data", "-U", "lbd", "-A", "trust", "-N")
        assert own.returncode == 0, own.stderr
        self.start()

    def _as_user(self, *words):
        """The prefix that runs it as its user. It must not outlive us, however we end."""
        own = ["setpriv", "--pdeathsig", "INT"]
        if self._user is not None:
            own += [f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}"]
            own += ["--clear-groups"]
        return [*own, *map(str, words)]

    def _run(self, program, *words):
        command = self._as_user(self.bin / program, *words)
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=60)

    def start(self):
        words = [f"--{name}={value}" for name, value in self._settings.items()]
        command = self._as_user(
            self.bin / "postgres", "-D", self.root / "data", "-k", self.root, *words
        )
        with (self.root / "log").open("a") as log:
            self._process = subprocess.Popen(
                command, cwd=self.root, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        until_s = time.monotonic() + START_S
        while self._run("pg_isready", "-q", "-h", self.root).returncode:
            assert self._process.poll() is None, (self.root / "log").read_text()
            assert time.monotonic() < until_s, (self.root / "log").read_text()
            time.sleep(0.05)

    def stop(self, number=signal.SIGINT):
        """INT disconnects all clients."""
        self._process.send_signal(number)
        self._process.wait(60)

    def pause(self):
        """Stops it: it holds its connections and answers nobody."""
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self):
        for pid in self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _pids(self):
        own = self._process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [own, *map(int, children)]

    def database(self):
        """The URL of a new database."""
        name = f"ledger{next(self._numbers)}"
        made = self.sql(f"CREATE DATABASE {name}", "postgres")
        assert made.returncode == 0, made.stderr
        return self.url(name)

    def url(self, name):
        return f"postgresql://lbd@/{name}?host={self.root}"

    def sql(self, text, name):
        return self._run("psql", "-h", self.root, "-U", "lbd", "-d", name, "-Atqc", text)

    def close(self):
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self.stop()
        shutil.rmtree(self.root, ignore_errors=True)
