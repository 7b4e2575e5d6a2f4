import pytest

from lbd.errors import Unavailable
from lbd.lbm.sent_away import SentAway
from lbd.model import HostId

H2, H3 = HostId("h2"), HostId("h3")


def test_it_is_told_once_each_time_it_is_sent_away():
    away = SentAway(60.0)
    for host in (H2, H3):
        away.happens(host, 100.0)
        said = [away.nobody_takes_it("no host", now_s) for now_s in (100.0, 101.0, 159.0)]
        assert said == [
            f"the owner of {host} is back; it waits for a host that takes it: no host", "", ""
        ]  # fmt: skip


def test_it_does_not_wait_for_ever():
    away = SentAway(60.0)
    away.happens(H2, 100.0)
    with pytest.raises(Unavailable, match=r"owner of h2 is back, and no host .* 60 s .*: drained"):
        away.nobody_takes_it("drained", 160.0)
    away.happens(H3, 200.0)
    assert away.nobody_takes_it("drained", 200.0)
