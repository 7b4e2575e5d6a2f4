"""A confined process (no_new_privs, limits) does not escape by way of another host."""

import subprocess

import pytest

from lbd.local import client_tags as tags
from lbd.local import frames
from tests.live.privileged import ANN
from tests.live.rogue import client_request

pytestmark = pytest.mark.root

# A child connects and ends; its parent asks in its place. FIELDS: a request for h2.
ASK = """
import os, socket, sys
request = bytes.fromhex(sys.argv[2])
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(20)
if sys.argv[3] == "gone":
    if os.fork() == 0:
        sock.connect(sys.argv[1])
        os._exit(0)
    os.wait()
else:
    sock.connect(sys.argv[1])
sock.sendall(request)
heard = b""
while True:
    data = sock.recv(65536)
    heard += data
    if not data or b"needs its descriptors" in heard:
        break
    if data[4:5] == b"G":
        socket.send_fds(sock, [bytes.fromhex(sys.argv[4])], [0, 1, 2])
    if data[4:5] == b"D":
        break
sys.stderr.write(repr(heard))
"""


def ask(two, tag, connector):
    """The output of `grep NoNewPrivs` on h2 for a process under no_new_privs."""
    fields = client_request(
        "grep", "NoNewPrivs", "/proc/self/status", ENVIRONMENT=b"PATH=/usr/bin:/bin",
        DIRECTORY=b"/", CLOSED_FDS=b"0", FLAGS=tags.FLAG_CHDIR + tags.FLAG_ROOTED,
    )  # fmt: skip
    program = two.root / "ask.py"
    program.write_text(ASK)
    program.chmod(0o644)
    path = two.root / "h1/run/lbm.sock"
    give = frames.pack(tags.DESCRIPTORS).hex()
    words = f"{program} {path} {frames.pack(tag, fields).hex()} {connector} {give}"
    return two.run(
        ANN, f"cd / && exec setpriv --no-new-privs /usr/bin/env python3 {words}",
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_no_new_privileges_holds_elsewhere(two):
    assert "NoNewPrivs:\t1" in ask(two, tags.RUN, "there").stdout


@pytest.mark.parametrize("tag", [tags.RUN, tags.QUEUE], ids=["at once", "queue"])
def test_whoever_connected_must_still_be_there(two, tag):
    result = ask(two, tag, "gone")
    assert result.stdout == ""
    assert "has ended, so its limits cannot be read" in result.stderr
