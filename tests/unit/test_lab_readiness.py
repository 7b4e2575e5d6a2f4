"""How long a lab may take to come up, and what is printed meanwhile."""

import pytest

from lbd.errors import LbdError
from lbd.lab.readiness import READY_S, TELL_S, Patience

MISSING = "h1: lim did not answer within 2 s"


def test_it_waits_while_the_daemons_live_and_says_what_for():
    patience = Patience(100.0)
    said = [patience.line(MISSING, 100.0 + s) for s in range(int(READY_S))]
    assert said[int(TELL_S)] == (
        f"not up after 15 s: {MISSING}; its daemons are alive, so waiting up to 120 s"
    )
    assert sum(map(bool, said)) == READY_S // TELL_S - 1
    with pytest.raises(LbdError, match="did not come up within 120 s: h1: lim did not answer"):
        patience.line(MISSING, 100.0 + READY_S)
