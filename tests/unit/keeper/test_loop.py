"""The keeper's loop."""

import fcntl
import resource
import socket

from lbd.keeper.lbm_connection import is_readable

HIGH = 1500  # select(2) knows only the first 1024


def test_it_can_check_any_descriptor_for_input():
    """It held that many while one LBM followed another: checking the next one with select(2) would
    have ended the keeper, and everybody's commands."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, HIGH + 1), hard))
    ours, theirs = socket.socketpair()
    try:
        number = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, HIGH)
        with ours, theirs, socket.socket(fileno=number) as high:
            assert not is_readable(high)
            theirs.send(b"x")
            assert is_readable(high)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
