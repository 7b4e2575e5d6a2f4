"""What the LIM's answer says about this host."""

from types import SimpleNamespace

import pytest

from lbd.keeper.local_account import Refuse
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.lim_report import drain_in, why_closed
from lbd.model import Closed
from lbd.process.boot_clock import time_of_day

SINCE_S = 1_700_000_000.0


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            {"reason": "disk sdb", "by": "ann", "since": SINCE_S},
            f"drained by ann since {time_of_day(SINCE_S)}: disk sdb",
        ),
        (
            {"reason": "", "by": "ann", "since": SINCE_S},
            f"drained by ann since {time_of_day(SINCE_S)}",
        ),
        ({"reason": "", "by": "", "since": None}, "drained"),
        (None, "drained"),
    ],
)
async def test_a_refusal_by_a_drained_host_says_who_drained_it_and_why(note, words, tmp_path):
    host = SimpleNamespace(drained_mark=str(tmp_path), why_drained=drain_in({"drain": note}))
    found = await InboundContext.admit(host, "bob", 1000, "h1")
    assert found == Refuse(words, is_drained=True)


@pytest.mark.parametrize(
    ("keeper", "is_served", "why"),
    [(7, True, Closed.LOAD), (0, True, Closed.NO_KEEPER), (0, False, Closed.ALONE)],
)
def test_a_host_whose_keeper_is_gone_says_so(keeper, is_served, why):
    """Everywhere else it looked well, and each command sent there failed."""
    rules = SimpleNamespace(closed=lambda: (Closed.LOAD, ""))
    host = SimpleNamespace(link=SimpleNamespace(pid=keeper), rules=rules)
    assert why_closed(host, is_served=is_served) is why
