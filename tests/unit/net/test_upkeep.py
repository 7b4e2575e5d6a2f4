"""Which host is asked for new revocations."""

import time
from types import SimpleNamespace

import pytest

from lbd.errors import PeerError, Unavailable
from lbd.net.gen import trust_pb2 as pb
from lbd.net.upkeep import Upkeep
from lbd.trust import certificates
from lbd.trust.files import HostFiles
from tests.unit.enrolment import enrolled, joined, made_authority

HOME = "h1 10.0.0.1:7901"


@pytest.mark.parametrize(
    ("home", "asked"),
    [(HOME, ["h1", "h2"]), ("", ["h2"]), (None, ["h2"]), ("h3 10.0.0.3:1", ["h2"])],
)
async def test_without_the_authority_another_host_is_asked(tmp_path, monkeypatch, home, asked):
    files = HostFiles(tmp_path)
    if home is not None:
        files.home.write_text(home)
    tls = SimpleNamespace(files=files, own_name="h3")
    others = {"h2": "10.0.0.2:7901"} | ({"h1": "10.0.0.1:7901"} if home == HOME else {})
    upkeep = Upkeep(tls, None, lambda: dict(others), 60.0)
    seen = []

    async def exchange(name, target):
        seen.append(name)
        if name == "h1":
            raise Unavailable("h1: away")

    monkeypatch.setattr(upkeep._calls, "exchange", exchange)
    await upkeep._exchange_updates()
    assert seen == asked


@pytest.mark.parametrize("given", ["nothing", "garbage", "of h2", "of another key", "of nobody"])
async def test_only_a_certificate_of_its_own_takes_the_place_of_the_old_one(
    tmp_path, monkeypatch, given
):
    """Whatever the LIM at the authority answered overwrote it: with garbage there, no daemon of
    this host started again until it had joined again."""
    authority = made_authority(tmp_path / "authority")
    tls = joined(authority, "h3")
    before = tls.files.credentials.read_bytes()
    other = made_authority(tmp_path / "other")
    another = certificates.new_request(certificates.new_key(), "h3")
    made = {
        "nothing": b"", "garbage": b"-----BEGIN CERTIFICATE-----\nAAAA\n",
        "of h2": enrolled(authority, "h2").read_credentials().chain,
        "of another key": authority.renew("h3", 0, another, time.time()),
        "of nobody": enrolled(other, "h3").read_credentials().chain,
    }[given]  # fmt: skip
    upkeep = Upkeep(tls, None, dict, 60.0)

    async def answer(*_):
        return pb.RenewReply(certificates=made)

    monkeypatch.setattr(upkeep._calls, "ask", answer)
    with pytest.raises(PeerError, match="certificate"):
        await upkeep._renew(time.time())
    assert tls.files.credentials.read_bytes() == before


async def test_a_valid_certificate_replaces_the_old_one(tmp_path, monkeypatch):
    authority = made_authority(tmp_path / "authority")
    tls = joined(authority, "h3")
    upkeep = Upkeep(tls, None, dict, 60.0)

    async def answer(_name, _target, _method, asked, _reply):
        made = authority.renew("h3", 0, asked.request, time.time())
        return pb.RenewReply(certificates=made)

    monkeypatch.setattr(upkeep._calls, "ask", answer)
    before = tls.credentials
    await upkeep._renew(time.time())
    assert tls.credentials != before


async def test_hosts_met_before_are_asked_while_none_is_known(tmp_path, monkeypatch):
    """A machine that was replaced while it was away is let in by no host, and so knew none to
    ask."""
    tls = SimpleNamespace(files=HostFiles(tmp_path), own_name="h1")
    known, met = {}, {"h1": "10.0.0.9:7901", "h2": "10.0.0.2:7901", "h3": "10.0.0.3:7901"}
    tls.files.home.write_text("h1 10.0.0.1:7901")
    upkeep, seen = Upkeep(tls, None, lambda: dict(known), 60.0, lambda: dict(met)), []

    async def exchange(name, target):
        seen.append(name)
        if len(seen) == 1:
            raise Unavailable(f"{name}: away")

    monkeypatch.setattr(upkeep._calls, "exchange", exchange)
    await upkeep._exchange_updates()
    assert sorted(seen) == ["h2", "h3"], "the second is asked as the first is away"
    known["h4"] = "10.0.0.4:7901"
    await upkeep._exchange_updates()
    assert seen[2:] == ["h4"]
