"""A host's certificate on disk, looked at while its daemons run."""

import time

import pytest

from lbd.lim.core.table import NEVER
from lbd.net.tls import Tls
from tests.unit.enrolment import enrolled, joined, made_authority


@pytest.fixture
def authority(tmp_path):
    return made_authority(tmp_path / "authority")


@pytest.fixture
def tls(authority):
    return joined(authority, "h1")


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


def test_who_is_out_until_it_is_heard_again(tls, authority):
    enrolled(authority, "h2")
    before_s = time.monotonic()
    assert not tls.is_out("h2", before_s)
    tls.learn(authority.revoke("h2"))
    assert [tls.is_out("h2", heard_s) for heard_s in (NEVER, before_s)] == [True, True]
    assert not tls.is_out("h2", time.monotonic()), "it has joined again: nobody else is heard"
    assert not tls.is_out("h3", NEVER)
    assert Tls("h1", tls.files).is_out("h2", NEVER), "a LIM that was restarted knows"
