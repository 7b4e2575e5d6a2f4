"""Runs the cluster of docker-compose.yml on an engine, and acts on its containers."""

import json
import os
import subprocess
from typing import ClassVar

from tests.cluster import image
from tests.cluster.engine import run
from tests.live.cluster import FAST, wait_until

FIND = """\
import contextlib, glob, os, sys
wanted = b"\\0" + b"\\0".join(map(os.fsencode, sys.argv[2:])) + b"\\0"
for path in glob.glob("/proc/[0-9]*/cmdline"):
    pid, words = int(path.split("/")[2]), b""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        words = open(path, "rb").read()
    if pid != os.getpid() and wanted in b"\\0" + words:
        os.kill(pid, int(sys.argv[1]))
        print(pid)
"""


class Compose:
    hosts: ClassVar = ["client", "first", "host1", "host2", "host3", "host4"]

    def __init__(self, engine, work):
        self.engine = engine
        self.name = f"lbdt{os.getpid()}"
        self.directory = work / "project"
        image.project(self.directory)
        base = image.base(engine, work)
        offline = {"LBD_BASE": base, "LBD_COMPILER": ""} if engine.private else {}
        self.environment = {
            **engine.environment, **offline, "COMPOSE_PROJECT_NAME": self.name,
            "LBD_IMAGE": f"{self.name}:test", "LBD_SET": " ".join(FAST),
        }  # fmt: skip
        self._containers = {}

    def compose(self, *words, timeout=300):
        return run(
            *self.engine.compose, *words, cwd=self.directory, env=self.environment, timeout=timeout
        )

    def up(self):
        self.compose("build", "first")
        self.compose("up", "--detach", "--no-build")
        self.wait_whole()

    def down(self):
        self.compose("down", "--volumes", "--timeout", "5")
        self.docker("image", "rm", "--force", self.environment["LBD_IMAGE"])
        self.assert_nothing_left()

    def mend(self):
        """Makes every container run on the network again, whatever a failed test has left."""
        for host in self.hosts:
            container = self.container(host)
            self.docker("unpause", container, check=False)
            self.docker("start", container, check=False)
            self.docker("network", "connect", f"{self.name}_default", container, check=False)

    def assert_nothing_left(self):
        ours = f"label=com.docker.compose.project={self.name}"
        for kind in (("ps", "--all"), ("network", "ls"), ("volume", "ls")):
            left = self.docker(*kind, "--quiet", "--filter", ours).stdout
            assert not left, f"left: {kind} {left}"

    # One container

    def docker(self, *words, **options):
        return self.engine.docker(*words, **options)

    def container(self, host):
        """The id of a host's container."""
        if host not in self._containers:
            service = host.rstrip("0123456789")
            wanted = {
                "project": self.name, "service": service,
                "container-number": host.removeprefix(service) or "1",
            }  # fmt: skip
            filters = [f"--filter=label=com.docker.compose.{k}={v}" for k, v in wanted.items()]
            found = self.docker("ps", "--all", "--quiet", *filters).stdout.split()
            assert len(found) == 1, (host, found)
            self._containers[host] = found[0]
        return self._containers[host]

    def forget(self, host):
        """Drops the cached id: the host has a new container."""
        del self._containers[host]

    def command(self, host, *argv):
        return ["docker", "exec", self.container(host), *map(str, argv)]

    def run(self, host, *argv, check=True, timeout=60):
        """Runs a command in a host's container, as its user."""
        return self.docker(*self.command(host, *argv)[1:], check=check, timeout=timeout)

    def popen(self, host, *argv):
        return subprocess.Popen(
            self.command(host, *argv), env=self.engine.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def inspect(self, host, template):
        return self.docker("inspect", "--format", template, self.container(host)).stdout.strip()

    def processes(self, host, *words, signal=0):
        """The processes in the container that have these words among their arguments; all get
        `signal`.

        The words must follow one another.
        """
        found = self.run(host, "python3", "-c", FIND, signal, *words).stdout
        return [int(pid) for pid in found.split()]

    # The cluster as lbd shows it

    def status(self, host="client"):
        return json.loads(self.run(host, "lbctl", "status", "--json").stdout)

    def row(self, name, host="client"):
        return next((row for row in self.status(host)["hosts"] if row["name"] == name), None)

    def states(self, host="client"):
        return {row["name"]: row["state"] for row in self.status(host)["hosts"]}

    def centre(self, host="client"):
        return self.status(host)["cluster"]["centre"]

    def queued(self, job):
        """The record of a queued job."""
        return json.loads(self.run("client", "lbctl", "job", job, "--json").stdout)

    def wait_until(self, predicate, what, timeout_s=90.0):
        try:
            return wait_until(predicate, what, timeout_s)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.logs()}") from None

    def logs(self):
        """The last lines of the daemons' logs, and the processes of the client's container."""
        running = self.docker("top", self.container("client"), "-eo", "pid,ppid,stat,args").stdout
        return f"{self.compose('logs', '--tail=8').stdout}\n{running}"

    def wait_whole(self):
        """Waits until every host sees all of them up, and they agree on the centre."""
        wanted = dict.fromkeys(self.hosts, "up")
        for host in self.hosts:
            self.wait_until(lambda host=host: self.states(host) == wanted, f"{host} sees all", 150)
            self.wait_until(lambda host=host: self.centre(host) == "first", f"{host}'s centre")
