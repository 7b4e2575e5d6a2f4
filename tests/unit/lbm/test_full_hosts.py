"""Hosts that had no slot are left out until a command has waited, and it waits only so long."""

import pytest

from lbd.errors import Unavailable
from lbd.lbm.full_hosts import FullHosts
from lbd.lbm.home import Where
from lbd.lbm.room import Room
from lbd.model import HostId

H2 = HostId("h2")
WAIT, THERE = Where("wait", HostId("h1"), "", ""), Where("there", H2, "", "lowest")


class Quick(Room):
    """Room at once."""

    async def wait(self, limit_s):
        pass


async def test_they_are_left_out_until_it_has_waited():
    full, asked = FullHosts(30.0), []
    full.names.add(H2)

    async def ask(may_wait):
        asked.append(set(full.names))
        return WAIT if full.names else THERE

    assert await full.find_place(ask, Quick()) is THERE
    assert asked == [{H2}, set()]


async def test_a_place_is_taken_without_waiting():
    full = FullHosts(30.0)
    full.names.add(H2)

    async def ask(may_wait):
        return THERE

    assert await full.find_place(ask, Quick()) is THERE
    assert full.names == {H2}


async def test_it_waits_no_longer_however_often_hosts_are_full():
    full, patient = FullHosts(0.05), []

    async def ask(may_wait):
        patient.append(may_wait)
        return THERE if may_wait else WAIT

    async def look_on():
        while True:
            await full.find_place(ask, Quick())
            full.names.add(H2)  # it had not

    with pytest.raises(Unavailable, match=r"no host had room within 0.05 s"):
        await look_on()
    assert patient[0]
    assert not patient[-1]


async def test_the_time_begins_anew_once_no_host_was_full():
    full = FullHosts(30.0)

    async def ask(may_wait):
        return THERE if may_wait else WAIT

    for _ in range(2):
        assert await full.find_place(ask, Quick()) is THERE
        full._give_up_s = 0.0
