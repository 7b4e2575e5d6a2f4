"""What the keeper holds for an LBM that does not wait for the answer to its goodbye."""

import contextlib
import os
import socket
import struct
import time

from lbd.keeper import fd_store as holding
from lbd.keeper.fd_store import Holding
from lbd.keeper.lbm_connection import LbmLine
from lbd.local import frames


def test_an_lbm_that_is_gone_before_the_answer_has_left_all_the_same():
    lbm, keeper = socket.socketpair()
    with keeper:
        lbm.close()
        held = Holding()
        held.leave(LbmLine(keeper, 1))
        assert held.expects_another
        assert not held.is_complete  # it was killed as it left
        held.hold(frames.field(holding.COUNT, b"1"), [os.open(os.devnull, os.O_RDONLY)])
        assert held.is_complete
        held.drop()


def lingering():
    """Returns a descriptor whose close takes as long as its other end pleases, and that end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other = listener.accept()[0]
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            one.send(bytes(1 << 16))
    one.setblocking(True)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 60))
    return one.detach(), other


def test_what_hangs_as_it_is_closed_holds_up_neither_the_keeper_nor_the_rest():
    held = Holding()
    hung, others = zip(*(lingering() for _ in range(3)), strict=True)
    reader, writer = os.pipe()
    held.descriptors = [*hung, writer]
    began_s = time.monotonic()
    held.drop()
    assert not held.descriptors
    assert os.read(reader, 1) == b""  # another user's descriptor is closed
    assert time.monotonic() - began_s < 30
    os.close(reader)
    for other in others:
        other.close()
