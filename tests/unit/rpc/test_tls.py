"""A host's certificate on disk, looked at while its daemons run."""

import time

import pytest

from lbd.rpc.tls import Tls
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles

DAY_S = 86400.0


@pytest.fixture
def tls(tmp_path):
    authority = Authority(tmp_path / "authority", DAY_S)
    authority.create("c", "h1", time.time())
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
