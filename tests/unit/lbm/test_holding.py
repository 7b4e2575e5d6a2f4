"""What the keeper holds, of an LBM that does not wait for the answer to its goodbye."""

import os
import socket

from lbd.lbm import holding
from lbd.lbm.holding import Holding
from lbd.lbm.lbm_line import LbmLine
from lbd.rpc import frames


def test_an_lbm_gone_before_it_is_answered_has_left_all_the_same():
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
