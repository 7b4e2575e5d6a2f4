"""A restart that cannot carry on what ran ends all of it, and says so."""

import os
import socket
from functools import partial

import pytest

from lbd.keeper import fd_store as holding
from lbd.keeper import protocol as keeper
from lbd.lbm.handover import saving
from lbd.local import frames
from lbd.local.descriptors import receive
from lbd.net.gen.handover_pb2 import Handover
from tests.live.cluster import FAST, Lab
from tests.live.contract import alive
from tests.live.restarting import leave

LOST = 125


LAB = partial(Lab.up, 2, settings=(*FAST, "lbm.orphan_after_s=3"))


@pytest.fixture
def command(lab):
    process = lab.popen(
        "h1", "lbrun", "-H", "h2", "sh", "-c", "setsid sleep 1000 & echo begun; sleep 1000",
        stdout=-1, stderr=-1, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.communicate()


def ended(lab, command):
    lab.wait_until(lambda: not lab.jobs_alive(), "all of it is ended", 15, lab.jobs_alive)
    output, errors = command.communicate(timeout=90)
    assert (command.returncode, output, errors.count("\n")) == (LOST, "", 1), errors
    return errors


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_new_lbm_that_never_comes(lab, command, host):
    """Its keeper ends what it holds after `orphan_after_s`, and then itself."""
    before = lab.pids()[host]["keeper"]
    leave(lab, host)
    assert "lost contact with" in ended(lab, command)
    lab.wait_until(lambda: not alive(before), "its keeper ends", 15)
    lab.start(host, "lbm")
    lab.wait_until(lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "it works")


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_new_lbm_that_is_killed_as_it_starts(lab, command, host):
    leave(lab, host)
    lab.start(host, "lbm")
    lab.kill(host, "lbm")
    assert "lost contact with" in ended(lab, command)
    lab.start(host, "lbm")
    lab.wait_until(lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "it works")


def test_a_cut_at_the_moment_of_the_restart(lab, command):
    lab.cut("h1", "h2")
    leave(lab, "h2")
    lab.start("h2", "lbm")
    assert "lost contact with h2" in ended(lab, command)
    lab.heal()
    lab.wait_until(lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "it works")


def test_a_record_that_only_a_newer_lbm_can_read(lab, command):
    """The older LBM takes over, as when an upgrade is undone: it misreads nothing."""
    leave(lab, "h2")
    change_what_is_needed(lab.paths("h2").run / "keeper.sock")
    lab.start("h2", "lbm")
    assert "lost contact with h2" in ended(lab, command)
    assert (
        f"this release reads {saving.NEEDS} to {saving.VERSION}"
        in lab.paths("h2").log("lbm").read_text()
    )
    lab.wait_until(lambda: lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 0, "it works")


def change_what_is_needed(path):
    """Acts as an LBM between the two: takes everything from the keeper and gives it back,
    changed."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        wanted, given, split = None, [], frames.Splitter(1 << 20)
        while wanted is None or len(given) < wanted:
            data, descriptors = receive(sock, 1 << 16, holding.AT_ONCE)
            given += descriptors
            for tag, body in split.feed(data):
                if tag == keeper.HELLO:
                    wanted = int(dict(frames.fields(body))[holding.COUNT])
        record = Handover.FromString(os.pread(given[0], 1 << 24, 0))
        assert record.needs == saving.NEEDS
        record.needs = record.version = saving.VERSION + 1
        changed = os.memfd_create("handover")
        os.write(changed, record.SerializeToString())
        sock.sendall(frames.pack(keeper.LEAVE))
        holding.send_descriptors(sock, keeper.HOLD, [changed, *given[1:]])
        for descriptor in (changed, *given):
            os.close(descriptor)
