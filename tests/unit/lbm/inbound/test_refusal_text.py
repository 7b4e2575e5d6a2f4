"""What the user reads where another host cannot begin the command."""

import errno

from lbd.lbm.inbound.order_from_request import explain
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen import lbm_pb2


def test_a_directory_that_is_not_shared_is_named():
    """What to do about it is said where the command comes from."""
    request = lbm_pb2.RunRequest(origin="h1", directory=b"/x", argv=[b"cc"])
    said = explain(request, SpawnFailed("directory", 0))
    assert said == "the directory /x is not shared with h1"


def test_a_directory_that_is_missing_is_named():
    request = lbm_pb2.RunRequest(origin="h1", directory=b"/x", argv=[b"cc"])
    said = explain(request, SpawnFailed("chdir", errno.ENOENT))
    assert said == "/x: No such file or directory"
