"""A user's fork bomb ends with its lease: before the dispatcher would start its job elsewhere."""

import contextlib
import mmap
import struct
import sys
import time

import pytest

from lbd.dispatch.core.hosts import Terms
from lbd.keeper import protocol as keeper
from lbd.keeper.limits.time_limits import LEASE, OVER, limit_frame
from lbd.process.boot_clock import clock_s
from tests.live.hostile_user.test_keeper_hangs import LoneKeeper
from tests.live.privileged import ANN

pytestmark = pytest.mark.root
LEASE_S = 3.0
COUNT = 800  # enough to take the processors, few enough for the machine
# Each process ignores signals, has a session of its own and never waits; the last one to have run
# leaves the time. They end by themselves in the end.
BOMB = """
import mmap, os, resource, signal, struct, sys, time
shared = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
resource.setrlimit(resource.RLIMIT_NPROC, (int(sys.argv[2]),) * 2)
for number in set(range(1, signal.NSIG)) - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
    signal.signal(number, signal.SIG_IGN)
until_s = time.monotonic() + 30
while (now_s := time.monotonic()) < until_s:
    struct.pack_into("d", shared, 0, time.clock_gettime(time.CLOCK_BOOTTIME))
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
"""


def last_sign_s(shared):
    (at_s,) = struct.unpack_from("d", shared, 0)
    return at_s


@pytest.mark.parametrize("containment", ["auto", "off"], ids=["cgroups", "sessions"])
def test_it_is_over_when_its_job_may_begin_elsewhere(short_dir, tmp_path, containment):
    """It left the keeper and the warden no processor, and killed processes made room for others: it
    ran on for minutes."""
    path = short_dir / "shared"
    path.write_bytes(bytes(4096))
    path.chmod(0o666)
    with contextlib.closing(LoneKeeper(short_dir, f"lbm.cgroup={containment}")) as lone:
        with open(path, "r+b") as file:
            shared = mmap.mmap(file.fileno(), 4096)
        begun_s = clock_s()
        words = [sys.executable, "-I", "-S", "-c", BOMB, path, str(COUNT)]
        argv = [str(word).encode() for word in words]
        lone.spawn("1", ANN, argv, limit_frame("1", begun_s + LEASE_S, 0.0))
        lone.socket.settimeout(60)
        over = lone.hear(keeper.EXITED, "1")[OVER]
        said_s = clock_s()
        time.sleep(1.0)
        ended_s = last_sign_s(shared)
        assert over == LEASE.encode()
        assert ended_s > begun_s + LEASE_S / 2
        assert ended_s < said_s, "none of it is left when the keeper says so"
        # As long after its lease as a dispatcher waits by default; after so short a lease it waits
        # less, and where little else runs that is enough, too.
        assert ended_s < begun_s + LEASE_S + Terms().waited_s - Terms().lease_s
