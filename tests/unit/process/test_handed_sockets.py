import os
import socket
import subprocess
import sys

import pytest

from lbd.cli.web import handed_sockets
from lbd.process.self_start import PACKAGE_PARENT

PROGRAM = """
import os, sys
sys.path.insert(0, sys.argv[1])
os.dup2(int(sys.argv[2]), 3)
from lbd.cli.web import handed_sockets
os.environ["LISTEN_PID"] = str(os.getpid())
(found,) = handed_sockets(os.environ)
print(found.getsockname()[1], os.get_inheritable(found.fileno()), "LISTEN_FDS" in os.environ)
"""


def test_a_socket_is_handed_over():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, PACKAGE_PARENT, str(sock.fileno())], check=True,
            env={**os.environ, "LISTEN_FDS": "1"}, pass_fds=[sock.fileno()], text=True,
            capture_output=True,
        )  # fmt: skip
        assert done.stdout.split() == [str(sock.getsockname()[1]), "False", "False"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "x", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_sockets_for_other_processes_are_left_alone(given):
    environment = dict(given)
    assert handed_sockets(environment) == []
    assert environment == {}
