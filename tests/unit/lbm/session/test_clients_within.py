"""The number of clients is limited by the descriptors that each daemon may have."""

import resource
import subprocess
import sys

import pytest

from lbd.lbm.session.server import clients_within

STARTED = """
import resource
from lbd.cli.daemons.wiring import run_daemon
from lbd.config.schema import Config
async def main(stop, ready):
    print(*resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
run_daemon("test", Config(), main)
"""


@pytest.mark.parametrize(
    ("descriptors", "clients"),
    [(65_536, 2048), (1024, 69), (300, 4), (0, 1), (resource.RLIM_INFINITY, 2048)],
)
def test_clients_leave_descriptors_for_all_else(descriptors, clients):
    """A thousand connections of one user took all of them: the LBM could accept no client, nor
    start anything, for as long as that user liked."""
    assert clients_within(2048, descriptors) == clients


def test_a_daemon_has_as_many_as_its_hard_limit_allows():
    """A shell's soft limit is 1024."""
    done = subprocess.run(
        ["sh", "-c", 'ulimit -Sn 500 && ulimit -Hn 1500 && exec "$@"', "sh", sys.executable, "-c",
         STARTED],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "1500 1500\n", done.stderr
