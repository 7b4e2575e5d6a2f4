"""A user waits for the moment when a daemon is down, to take its port."""

import os
import signal

import pytest

from tests.live.cluster import wait_until
from tests.live.hostile_user.test_descriptors import still_serves
from tests.live.hostile_user.test_other_users import under_way
from tests.live.privileged import MALLORY

pytestmark = pytest.mark.root

TAKES = """
import itertools, socket, sys, time
yes_or_no, places, ports = (0, 1), (sys.argv[1], "0.0.0.0"), (7901, 7902, 7903)
ways = itertools.cycle(itertools.product(yes_or_no, yes_or_no, places, ports))
had = []
print("tries", flush=True)
for reuses_address, reuses_port, address, port in ways:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuses_address)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, reuses_port)
    try:
        sock.bind((address, port))
        sock.listen()
        had.append(sock)
        print("has", address, port, flush=True)
    except OSError:
        time.sleep(0.0005)
"""

HAS_FOR_IPV6 = """
import socket, time
for port in (7901, 7902, 7903):
    sock = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=False)
    globals()[f"kept_{port}"] = sock
print("has them", flush=True)
time.sleep(600)
"""


def restart(two, daemon):
    file = two.root / f"h1/run/{daemon}.pid"
    before = file.read_text().strip()
    os.kill(int(before), signal.SIGKILL)
    wait_until(
        lambda: file.read_text().strip() not in ("", before), f"the next {daemon}", see=two.logs
    )
    two.ready()


def test_keeps_no_daemon_from_its_port_by_one_of_ipv6_alone(two):
    """A user may take the IPv6 port where the daemons use IPv4; the daemons still start."""
    script = two.root / "for_ipv6.py"
    script.write_text(HAS_FOR_IPV6)
    script.chmod(0o755)
    with under_way(two, MALLORY, f"exec /usr/bin/python3 {script}") as attack:
        assert attack.stdout.readline() == "has them\n"
        for daemon in ("lim", "lbm"):
            restart(two, daemon)
        still_serves(two)


def test_takes_no_port_of_a_daemon_that_is_away(two):
    script = two.root / "takes.py"
    script.write_text(TAKES)
    script.chmod(0o755)
    own = f"{two.subnet}.1"
    with under_way(two, MALLORY, f"exec /usr/bin/python3 {script} {own}") as attack:
        assert attack.stdout.readline() == "tries\n"
        for daemon in ("lim", "lbm"):
            restart(two, daemon)
        still_serves(two)
        attack.kill()
        assert attack.stdout.read() == ""
