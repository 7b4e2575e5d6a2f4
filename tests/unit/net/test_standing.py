"""Whether a host still has its place: only the authority's signed list takes it away."""

import asyncio

import pytest

from lbd.errors import PeerError, Unavailable
from lbd.net.standing import Standing
from lbd.trust.revocations import Revocations
from tests.unit.enrolment import enrolled, joined, made_authority, restored


class Hosts:
    """Other hosts: each answers with a list, is away (None), or never answers ("")."""

    def __init__(self, tls, **answers):
        self.tls, self.answers, self.asked = tls, answers, []

    async def exchange(self, name, _target):
        self.asked.append(name)
        answer = self.answers[name]
        if answer is None:
            raise Unavailable(f"{name}: away")
        if answer == "":
            await asyncio.Event().wait()
        if answer:
            self.tls.learn(answer)

    def standing(self):
        return Standing(self.tls, self, lambda: dict.fromkeys(self.answers, "10.0.0.2:7901"))


@pytest.fixture
def tls(authority):
    enrolled(authority, "h2")
    return joined(authority, "h1")


async def confirmed(standing, wait_s=0.0):
    said = []
    found = await standing.confirmed(wait_s, asyncio.Event(), said.append)
    return found, said


async def test_a_host_whose_place_another_machine_has_taken_is_told(tls, authority):
    standing, ended = Hosts(tls, h2=restored(authority)).standing(), asyncio.Event()
    standing.ends(ended)
    assert not standing.is_out
    assert await confirmed(standing) == (True, [])
    assert (standing.is_out, ended.is_set()) == (True, True)


async def test_an_alone_host_waits_for_nobody(tls):
    assert await confirmed(Hosts(tls).standing(), 1e9) == (True, [])


async def test_one_answer_is_enough_and_a_silent_host_delays_little(tls, monkeypatch):
    monkeypatch.setattr("lbd.net.standing.LATER_S", 0.0)
    hosts = Hosts(tls, h2=b"", h3="", h4=None)
    assert await confirmed(hosts.standing(), 1e9) == (True, [])
    assert sorted(hosts.asked) == ["h2", "h3", "h4"]


async def test_no_answer_is_waited_for_but_not_for_ever(tls, authority, monkeypatch):
    monkeypatch.setattr("lbd.net.standing.AGAIN_S", 0.0)
    hosts = Hosts(tls, h2=None)
    standing = hosts.standing()
    assert await confirmed(standing) == (False, [])

    def comes_back(_hosts):
        hosts.answers["h2"] = restored(authority)

    assert await standing.confirmed(1e9, asyncio.Event(), comes_back)
    assert standing.is_out


async def test_a_lie_takes_nobodys_place_away(tls, authority, tmp_path):
    """Neither a host's word nor the list of another authority counts."""
    other = made_authority(tmp_path / "other")
    enrolled(other, "h1")
    forged = restored(other)
    with pytest.raises(PeerError):
        tls.learn(forged)
    standing = Hosts(tls, h2=forged).standing()
    assert await confirmed(standing) == (False, [])
    assert not standing.is_out


async def test_a_host_that_has_joined_again_may_go_on(tls, authority, monkeypatch):
    monkeypatch.setattr("lbd.net.standing.LOOK_S", 0.0)
    standing = Hosts(tls).standing()
    tls.learn(restored(authority))
    waiting = asyncio.create_task(standing.readmitted(asyncio.Event()))
    await asyncio.sleep(0)
    assert not waiting.done()
    authority.change(lambda ledger: ledger.begun_again(Revocations(), is_home_new=True))
    enrolled(authority, "h1")
    tls.look()
    await asyncio.wait_for(waiting, 10)
    assert not standing.is_out
