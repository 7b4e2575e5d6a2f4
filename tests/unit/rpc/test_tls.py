"""A host's certificate on disk, looked at while its daemons run."""

import time

import pytest

from lbd.lim.table import NEVER
from lbd.rpc.tls import Tls
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles

DAY_S = 86400.0


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path / "authority", DAY_S)
    made.create("c", "h1", time.time())
    return made


@pytest.fixture
def tls(tmp_path, authority):
    files = HostFiles(tmp_path / "h1")
    enrol(authority, files, "h1", "127.0.0.1:7901", time.time())
    return Tls("h1", files)


def test_a_key_that_is_opened_to_others_is_complained_of_once(tls, caplog):
    complaint = f"{tls.files.credentials} is open to others; chmod 600 it"
    tls.look()
    assert not caplog.messages
    for told in (1, 2):
        tls.files.credentials.chmod(0o640)
        for _ in range(3):
            tls.look()
        assert caplog.messages == [complaint] * told
        tls.files.credentials.chmod(0o600)
        tls.look()
    assert tls.generation == 0, "it is the same certificate"


def test_who_is_out_until_it_is_heard_again(tls, authority, tmp_path):
    enrol(authority, HostFiles(tmp_path / "h2"), "h2", "127.0.0.1:7901", time.time())
    before_s = time.monotonic()
    assert not tls.is_out("h2", before_s)
    tls.learn(authority.revoke("h2"))
    assert [tls.is_out("h2", heard_s) for heard_s in (NEVER, before_s)] == [True, True]
    assert not tls.is_out("h2", time.monotonic()), "it has joined again: nobody else is heard"
    assert not tls.is_out("h3", NEVER)
    assert Tls("h1", tls.files).is_out("h2", NEVER), "a LIM that was started anew knows"
