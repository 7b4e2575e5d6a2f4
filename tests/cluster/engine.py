"""A Docker engine for these tests: the one that runs here, else a private one.

The private engine lives in namespaces of its own: its bridges and packet filters are in a network
that nobody else sees, its mounts go with it, and when its first process ends, everything that it
started ends too. Only a directory remains and, in the cgroup hierarchies, empty directories.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import psutil

from tests.live.cluster import PREFIX, wait_until

PROGRAMS = ("dockerd", "docker", "debootstrap", "unshare", "ip")
COMPOSE = (("docker", "compose"), ("docker-compose",))
CGROUPS = Path("/sys/fs/cgroup")
ENTER = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
START = 'ip link set lo up && exec dockerd --data-root "$0/data" --exec-root "$0/exec" ' \
    '--pidfile "$0/pid" --host "unix://$0/socket" --cgroup-parent "$1" >"$0/log" 2>&1'  # fmt: skip


class Lacking(Exception):
    """These tests need something that is not available here; the text says what."""


class Engine:
    """An engine that answers. `private`: started by these tests, without access to the network."""

    private = False

    def __init__(self) -> None:
        self.environment = dict(os.environ)
        self.compose = next((c for c in COMPOSE if succeeds(*c, "version")), None)
        if self.compose is None:
            raise Lacking("neither `docker compose` nor docker-compose")

    def docker(self, *words, check=True, timeout=120, **options):
        return run("docker", *words, env=self.environment, check=check, timeout=timeout, **options)

    def stop(self):
        """Does nothing: an engine that ran before the tests goes on."""


class PrivateEngine(Engine):
    private = True

    def __init__(self) -> None:
        super().__init__()
        missing = [program for program in PROGRAMS if not shutil.which(program)]
        if os.geteuid() != 0 or missing:
            raise Lacking(f"missing: {', '.join(missing) or 'root'}")
        self.root = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.environment["DOCKER_HOST"] = f"unix://{self.root}/socket"
        self._process = subprocess.Popen(
            [*ENTER, "sh", "-c", START, self.root, self.root.name], stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        wait_until(self._answers_or_has_ended, "dockerd answers", 60)
        if self._process.poll() is not None:
            last = (self.root / "log").read_text(errors="replace").splitlines()[-1:]
            self.stop()
            raise Lacking(f"dockerd does not start here: {' '.join(last)}")

    def _answers_or_has_ended(self):
        ended = self._process.poll() is not None
        return ended or self.docker("version", check=False).returncode == 0

    def stop(self):
        """Stops in order, else by force, and leaves nothing behind."""
        with contextlib.suppress(psutil.Error):
            for daemon in psutil.Process(self._process.pid).children():
                daemon.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
        wait_until(self._cgroups_are_gone, "no process is left")
        shutil.rmtree(self.root)

    def _cgroups_are_gone(self):
        for directory in sorted(self._cgroups(), reverse=True):
            os.rmdir(directory)
        return True

    def _cgroups(self):
        for parent, names, _ in os.walk(CGROUPS):
            if self.root.name in names:
                yield from (top for top, _, _ in os.walk(Path(parent, self.root.name)))


def need(*words, **options):
    """`run` for a command that a machine without a network cannot carry out. Raises Lacking."""
    result = run(*words, check=False, **options)
    if result.returncode:
        last = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise Lacking(f"{words[0]}: {' '.join(last)}")


def run(*words, check=True, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    result = subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)
    if check and result.returncode != 0:
        raise AssertionError(f"{words}: {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


def succeeds(*words):
    try:
        return run(*words, check=False).returncode == 0
    except OSError:
        return False


def find():
    """The engine that runs here, else a private one. Raises Lacking."""
    return Engine() if succeeds("docker", "info") else PrivateEngine()
