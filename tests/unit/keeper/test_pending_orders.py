"""Orders to the keeper, until their commands run."""

import errno
import fcntl
import os
import select
import socket
from types import SimpleNamespace

import pytest

from lbd.keeper.child import Spare
from lbd.keeper.fd_store import frame_of
from lbd.keeper.job import Running
from lbd.keeper.pending_orders import USUAL_PIPE_BYTES, WIDE_PIPE_BYTES, Beginnings, give_room
from lbd.keeper.preforked import Spares
from lbd.keeper.protocol import BEGUN, FAILED, GROUP, KILLED, NUMBER, PHASE, PID
from lbd.keeper.spawn_order import JOB, Order, pack_order
from lbd.local import frames
from lbd.process.boot_clock import clock_s

ORDER = pack_order(Order("h1-1", [b"true"], user=(1000, 1000, 1000)))


class Loop:
    """A stand-in for the keeper's loop."""

    def __init__(self):
        self.jobs, self.quitting, self.said = {}, False, []

    def report(self, tag, *pairs):
        self.said.append((tag, dict(pairs)))


@pytest.fixture
def loop():
    return Loop()


@pytest.fixture
def beginnings(loop, monkeypatch):
    """It is not known yet who may run as that user, so orders wait."""
    gate = SimpleNamespace(lbm_uid=0, verdict=lambda *_: None, is_aging=lambda *_: False)
    made = Beginnings(loop, select.poll(), SimpleNamespace(containment=None), b"", gate)
    monkeypatch.setattr(made.looks, "look", lambda _user: None)
    return made


def descriptors():
    return [os.memfd_create("given") for _ in range(3)]


def is_open(descriptor):
    """Its number may be another file's by now: threads of other tests may still run."""
    try:
        return "memfd:given" in os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_second_order_of_the_same_name_is_refused_and_the_first_continues(
    beginnings, loop, has_begun
):
    """Otherwise the end of one would be taken for the other's, and the keeper would look in vain
    for the forgotten one."""
    first, second, others = descriptors(), descriptors(), descriptors()
    assert beginnings.take(ORDER, first) == []
    if has_begun:
        beginnings.looks.waiting.clear()
        loop.jobs["h1-1"] = running = object()
    else:
        running = None
    assert beginnings.take(ORDER, second + others) == others
    refusal = {JOB: "h1-1", PHASE: "spawn", NUMBER: errno.EEXIST}
    assert loop.said == [(FAILED, refusal)]
    assert loop.jobs.get("h1-1") is running
    assert beginnings.is_waiting("h1-1") != has_begun
    assert not any(map(is_open, second))
    assert all(map(is_open, first + others))
    for descriptor in first + others:
        os.close(descriptor)


def test_an_order_of_too_many_words_is_refused_alone(beginnings, loop):
    """Another host may have sent it: an error would cost the LBM its connection and all its
    jobs."""
    given = descriptors()
    words = [b""] * frames.FIELDS_MAX
    assert beginnings.take(pack_order(Order("h1-1", words)), given) == []
    assert loop.said == [(FAILED, {JOB: "h1-1", PHASE: "spawn", NUMBER: errno.EBADMSG})]
    assert not any(map(is_open, given))


def test_an_order_that_is_read_after_its_lease_is_refused(loop, monkeypatch):
    """The keeper has hung, and another attempt may have started elsewhere."""
    gate = SimpleNamespace(lbm_uid=0, verdict=lambda *_: "", is_aging=lambda *_: False)
    late = Beginnings(loop, select.poll(), SimpleNamespace(containment=None), b"", gate)
    taken = []
    monkeypatch.setattr(late.spares, "take", lambda **_: taken.append(1))
    start_by_ms = int((clock_s() - 0.1) * 1e3)
    late.take(pack_order(Order("h1-2", [b"true"], start_by_ms=start_by_ms)), descriptors())
    assert loop.said == [(FAILED, {JOB: "h1-2", PHASE: "spawn", NUMBER: errno.ETIME})]
    assert not taken


def test_a_new_lbm_is_told_that_processes_are_killed_as_they_begin(beginnings, monkeypatch):
    assert beginnings.jobs_there() == b""
    monkeypatch.setattr(Spares, "are_killed", True)
    assert beginnings.jobs_there() == frame_of(KILLED, (NUMBER, 1))


@pytest.mark.parametrize("has_steps", [True, False])
def test_a_child_has_lived_if_it_has_read_its_steps(beginnings, loop, monkeypatch, has_steps):
    lived, (ours, theirs) = [], socket.socketpair()
    monkeypatch.setattr(beginnings.spares, "lived", lambda: lived.append(1))
    monkeypatch.setattr(beginnings, "_containment", SimpleNamespace(ended=lambda _: None))
    monkeypatch.setattr(beginnings.spares, "dismiss", lambda *_: None)
    loop.jobs["h1-1"], loop.forget = Running(1, "", 0), loop.jobs.pop
    spare = Spare(1, ours, "")
    spare.start(b"steps", [])
    if has_steps:
        theirs.recv(100)
    theirs.close()
    beginnings._starting[ours.fileno()] = ("h1-1", spare)
    beginnings._watch(spare)
    beginnings.hear(ours.fileno(), select.POLLIN)
    assert lived == [1] * has_steps
    begun = BEGUN, {JOB: "h1-1", PID: 1, GROUP: ""}
    failed = FAILED, {JOB: "h1-1", PHASE: "spawn", NUMBER: errno.ECONNRESET}
    assert loop.said == [begun if has_steps else failed]


def test_a_pipe_that_the_kernel_made_small_gets_room():
    """An LBM gets two pages once commands keep enough of the pipes that it has made."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    with open(os.devnull) as other:
        give_room([other.fileno(), *ends])
    assert fcntl.fcntl(ends[0], fcntl.F_GETPIPE_SZ) == WIDE_PIPE_BYTES
    fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, USUAL_PIPE_BYTES)
    give_room(list(ends))
    assert fcntl.fcntl(ends[0], fcntl.F_GETPIPE_SZ) == USUAL_PIPE_BYTES, "it is as usual"
    for end in ends:
        os.close(end)
