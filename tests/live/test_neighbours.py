"""A host of another release: a neighbouring release works along, any other is refused and named."""

import contextlib
import subprocess
import sys
from functools import partial
from pathlib import Path

from cluster import EACH_WAY, SERVED, Lab
from contract import assert_one_line
from rogue import Peer

from lbd.lbm.link import wire as tags
from lbd.net import release as wire
from lbd.net.gen import lbm_pb2

PROGRAM = Path(__file__).with_name("other_release.py")
DAEMONS = ("lim", "lbm")


@contextlib.contextmanager
def other_release(lab, newest, oldest):
    """Runs that release on h2 of the lab instead of ours."""
    for daemon in DAEMONS:
        lab.kill("h2", daemon, "TERM")
        lab.wait_until(lambda daemon=daemon: not lab.pids()["h2"][daemon], f"{daemon} has ended")
    announced = [str(newest), str(oldest)]
    started = [
        lab.popen(
            "h2", sys.executable, PROGRAM, *announced, daemon, "--config", lab.paths("h2").config,
            env={"PYTHONPATH": str(PROGRAM.parents[2])}, stderr=subprocess.DEVNULL,
        )
        for daemon in DAEMONS
    ]  # fmt: skip
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(20)
        lab.start("h2")


def wait_until_up(lab):
    for pair in EACH_WAY:
        lab.wait_until(
            lambda pair=pair: lab.served(*pair) == SERVED, f"{pair}", 20,
            lambda pair=pair: lab.served(*pair),
        )  # fmt: skip


LAB = partial(Lab.up, 2)


def why_down(lab, host, other):
    rows = lab.lbctl_json(host, "status")["hosts"]
    return next(row["why_down"] for row in rows if row["name"] == other)


def test_the_next_release_works_along(lab):
    with other_release(lab, wire.OWN.newest + 1, wire.OWN.newest):
        wait_until_up(lab)
        assert set(lab.states("h1").values()) == {"up"}
        assert "adjacent versions work together" in lab.run("h1", "lbctl", "doctor").stdout
    wait_until_up(lab)


def test_any_other_is_refused_and_named(lab):
    with other_release(lab, wire.OWN.newest + 2, wire.OWN.newest + 1):
        for host, other in (("h1", "h2"), ("h2", "h1")):
            lab.wait_until(
                lambda host=host, other=other: why_down(lab, host, other).endswith("upgrade h1"),
                f"{host} knows why {other} is down", 20, lambda host=host: lab.states(host),
            )  # fmt: skip
        shown = lab.run("h1", "lbctl", "status").stdout
        assert "h2: h1 runs lbd" in shown
        doctor = lab.lbctl_json_any("h1", "doctor")
        (fault,) = (check for check in doctor["checks"] if check["name"] == "peer h2")
        assert (fault["state"], fault["mend"]) == ("fault", "upgrade h1")
        result = lab.run("h1", "lbrun", "-H", "h2", "true")
        assert result.returncode == 125
        assert_one_line(result.stderr, "lbrun")
        assert lab.run("h1", "lbrun", "true").returncode == 0
    wait_until_up(lab)  # upgraded


def test_an_unknown_request_is_refused_and_named(lab):
    with Peer(lab, "h1") as peer:
        for _, tag, body in peer.converse([tags.pack(1, b"Z", b"something new")]):
            assert tag == tags.REFUSED
            assert str(wire.OWN) in lbm_pb2.Refused.FromString(body).reason
            break
