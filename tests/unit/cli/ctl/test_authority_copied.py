"""A copy of the authority is taken up: who was revoked since can be kept out."""

import shutil
import time

import pytest

from lbd.errors import LbdError, PeerError
from lbd.trust import certificates
from lbd.trust.enrol import enrol
from tests.unit.cli.ctl.authority_hosts import Host, lbctl_on, refused, two_hosts

END = b"-----END CERTIFICATE-----\n"


def certificate_of(host):
    return host.files.read_credentials().certificate.encode()


def is_let_in(by, certificate):
    by.look()
    try:
        return bool(by.host_of(certificate, time.time()))
    except PeerError:
        return False


def joined(authority, token, host):
    return authority.join(token.id, host, certificates.new_request(certificates.new_key(), host),
                          time.time()).partition(END)[0] + END  # fmt: skip


@pytest.fixture
def lbctl(capsys, monkeypatch):
    return lbctl_on(capsys, monkeypatch)


@pytest.fixture
def copied(lbctl, tmp_path):
    """Two hosts, a third that joined after a copy was made, and a token of before it."""
    first, second = two_hosts(tmp_path)
    third = Host(tmp_path, "h3")
    token = first.authority.new_token("", 3600.0, time.time())
    lbctl(first, "backup", tmp_path / "b.tar")
    enrol(first.authority, third.files, "h3", "10.0.0.1:7901", time.time())
    return first, second, third, token


def test_who_joined_after_the_copy_and_was_revoked_stays_out(copied, lbctl, tmp_path):
    """The list of the copy did not have it, and it could not be revoked again."""
    first, second, third, token = copied
    stranger = second.tls()
    stranger.learn(first.authority.revoke("h3"))
    said = lbctl(second, "authority", "take", tmp_path / "b.tar")
    assert "tokens that were made before are void" in said.err
    assert not is_let_in(stranger, certificate_of(third))
    assert not second.authority.ledger().tokens
    with pytest.raises(LbdError, match="is unknown here"):
        joined(second.authority, token, "h3")
    again = second.authority.new_token("h3", 3600.0, time.time())
    made = joined(second.authority, again, "h3")
    stranger.learn(second.authority.signed_list())
    assert is_let_in(stranger, made)
    assert not is_let_in(stranger, certificate_of(third))


@pytest.mark.parametrize("knew", [True, False], ids=["joined before", "joined after"])
def test_on_a_new_machine_whom_nobody_has_on_record_is_revoked_again(copied, lbctl, tmp_path, knew):
    first, second, third, _ = copied
    stranger, newcomer = second.tls(), second.tls()
    stranger.learn(first.authority.revoke("h3"))
    if knew:  # in the copy, and joined again since
        lbctl(first, "backup", tmp_path / "c.tar")
        enrol(first.authority, third.files, "h3", "10.0.0.1:7901", time.time())
        stranger.learn(first.authority.revoke("h3"))
    shutil.rmtree(first.root / "state/tls")
    shutil.rmtree(first.authority.root)
    lbctl(first, "restore", tmp_path / ("c.tar" if knew else "b.tar"))
    stranger.learn(first.authority.signed_list())
    assert not is_let_in(stranger, certificate_of(third)), "who has heard of it stays with that"
    second.files.revoked_before.unlink(missing_ok=True)
    second.files.revoked.write_bytes(first.authority.signed_list())
    assert is_let_in(newcomer, certificate_of(third)) != knew, "it was out in that copy"
    if not knew:
        lbctl(first, "revoke", "h3")
        newcomer.learn(first.authority.signed_list())
        assert not is_let_in(newcomer, certificate_of(third))
        line = refused(lbctl(first, "revoke", "h3", status=2))
        assert line.endswith("h3 is already revoked")


def test_who_joins_again_after_a_copy_was_taken_up_replaces_what_it_had(copied, lbctl, tmp_path):
    """Its certificate from before, which may have been stolen, had the same issue."""
    _, second, third, _ = copied
    lbctl(second, "authority", "take", tmp_path / "b.tar")
    token = second.authority.new_token("", 3600.0, time.time())
    made = joined(second.authority, token, "h3")
    stranger = second.tls()
    stranger.learn(second.authority.signed_list())
    assert (is_let_in(stranger, made), is_let_in(stranger, certificate_of(third))) == (True, False)


def test_a_token_with_which_a_revoked_host_has_joined_is_void(lbctl, tmp_path):
    first, _ = two_hosts(tmp_path)
    token = first.authority.new_token("", 3600.0, time.time(), 5)
    other = first.authority.new_token("", 3600.0, time.time(), 5)
    for host in ("h3", "h4"):
        joined(first.authority, token, host)
    said = lbctl(first, "revoke", "h3")
    assert f"token {token.id} is void, too: h3 has joined with it" in said.out.splitlines()
    assert [one.id for one in first.authority.ledger().tokens] == [other.id]
