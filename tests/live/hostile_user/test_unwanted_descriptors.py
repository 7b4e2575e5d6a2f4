"""A local user sends descriptors that nobody asked for, of sockets that linger as they close.

The kernel once closed such descriptors in the event loop, for as long as the user's SO_LINGER said.
"""

import subprocess
import sys

import pytest

from tests.live.hostile_user.test_descriptors import still_serves
from tests.live.privileged import MALLORY, opened

pytestmark = pytest.mark.root

# argv: socket, way. Each descriptor is the last of a connection whose other end does not read.
SEND = """
import array, os, socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
kept, given = [], []
for _ in range(8):
    one = socket.create_connection(listener.getsockname())
    kept.append(listener.accept()[0])
    one.setblocking(False)
    try:
        while True:
            one.send(bytes(65536))
    except BlockingIOError:
        pass
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
    given.append(one)
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
numbers = array.array("i", [one.fileno() for one in given])
flags = socket.MSG_OOB if sys.argv[2] == "urgent" else 0
try:
    sock.sendmsg([b"\\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)], flags)
except PermissionError:  # so the kernel says from Linux 6.16 on, and we would linger ourselves
    for one in given:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
for one in given:
    one.close()
try:
    sock.sendall(b"\\0")
except BrokenPipeError:  # hung up on already
    pass
if sys.argv[2] == "left":
    sock.close()
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("daemon", ["lbm", "lim"])
@pytest.mark.parametrize("way", ["kept", "urgent", "left"])
def test_descriptors_that_linger_as_they_close_hold_up_nobody(two, daemon, way):
    script = two.root / "send.py"
    script.write_text(SEND)
    path = f"{two.root}/h1/run/{daemon}.sock"
    who = ("setpriv", "--reuid", MALLORY, "--clear-groups")
    argv = [*opened(), *who, sys.executable, str(script), path, way]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        try:
            assert sender.stdout.readline() == b"sent\n"
            for _ in range(3):
                assert two.ask("h1", "lim", "status")
                still_serves(two)
        finally:
            sender.kill()
