"""A lost first host is restored on another machine; then the lost one is started again."""

import random
import sys

import pytest

from tests.live.cluster import wait_until
from tests.live.test_joining import BareHost
from tests.live.test_moving import LONG_S, joins, succeeds, up

UNDRAIN = """
import json, pathlib
state = pathlib.Path("/var/lib/lbd")
(state / "drained").unlink(missing_ok=True)
settings = json.loads((state / "settings.json").read_text())
(state / "settings.json").write_text(json.dumps(settings | {"drains": {}}))
"""
pytestmark = [pytest.mark.live, pytest.mark.root]


class Machine(BareHost):
    def stop(self):
        self._up.terminate()
        self._up.wait(60)
        self._up = None


@pytest.fixture
def machines(short_dir):
    """Two hosts that are up, the first with the authority and the queue, and a bare machine."""
    short_dir.chmod(0o755)
    net = f"127.{random.randint(1, 254)}.{random.randint(0, 254)}"
    found = [
        Machine(short_dir, name, f"{net}.{n}") for n, name in enumerate(("h1", "h2", "new"), 1)
    ]
    first, second, _ = found
    try:
        succeeds(first, "lbctl", "init", "--name", "h1", "--address", first.address, "--queue")
        up(first, "root")
        joins(first, second, "root")
        yield found
    finally:
        for machine in found:
            machine.down()


def test_the_lost_machine_starts_no_job_if_it_comes_back(machines, short_dir):
    first, second, new = machines
    wait_until(lambda: "0 queued" in second.run("lbctl", "queue").stdout, "the queue is found",
               LONG_S, first.log.read_text)  # fmt: skip
    wait_until(lambda: '"h2"' in first.run("cat", "/var/lib/lbd/hosts.json").stdout,
               "the first remembers the second", LONG_S)  # fmt: skip
    marks = short_dir / "marks"
    marks.mkdir()
    command = f"echo >>{marks}/$LBD_JOB_ID"
    for host in ("h1", "h2"):
        succeeds(first, "lbctl", "drain", host)
    succeeds(first, "lbrun", "-d", "sh", "-c", command)
    file = short_dir / "b.tar"
    succeeds(first, "lbctl", "backup", str(file))
    first.stop()
    succeeds(first, sys.executable, "-c", UNDRAIN)

    succeeds(new, "lbctl", "restore", str(file))
    succeeds(new, "lbctl", "config", "set", "host.address", new.address)
    up(new, "root")
    said = "revoked, unless they join again: h1"
    wait_until(lambda: said in second.log.read_text(), "the second host is told", LONG_S,
               new.log.read_text)  # fmt: skip

    succeeds(first, "rm", "/run/lbd/dispatcher.led")  # as after a boot
    up(first, "root")
    wait_until(lambda: "no job starts here" in first.log.read_text(), "the first notices", LONG_S,
               first.log.read_text)  # fmt: skip
    assert "dispatcher: ready" not in first.log.read_text()
    assert list(marks.iterdir()) == []
    wait_until(lambda: "h1 (here)  revoked" in first.run("lbctl", "status").stdout,
               "its status says so", LONG_S, first.log.read_text)  # fmt: skip
    doctor = first.run("lbctl", "doctor").stdout
    assert "a machine restored from a backup of this one is h1 now" in doctor
    assert "authority  " not in doctor, "the process with the key need not run here"
    assert "is an old copy" in first.run("lbctl", "token", "create", "h9").stderr
    assert list(marks.iterdir()) == []
