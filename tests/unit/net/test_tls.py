"""A host's certificate on disk, watched while its daemons run."""

import logging
import time
from types import SimpleNamespace

import pytest

from lbd.errors import PeerError
from lbd.lim.core.table import NEVER
from lbd.net.tls import (
    CERTIFICATE_BYTES,
    Tls,
    certificate_of,
    has_expired,
    has_new_certificate,
    own_fault,
)
from lbd.net.transport import NOBODY
from lbd.trust import certificates
from lbd.trust.authority import sign
from lbd.trust.files import Credentials
from lbd.trust.names import DIGITS_MAX, names_of
from lbd.trust.revocations import Revocations
from lbd.trust.token import FINGERPRINT_BYTES, SECRET_BYTES, Token
from tests.unit.enrolment import DAY_S, enrolled, joined, made_authority


@pytest.fixture
def tls(authority):
    return joined(authority, "h1")


def test_a_key_that_is_opened_to_others_is_reported_once(tls, caplog):
    complaint = f"{tls.files.credentials} is accessible to others; chmod 600 it"
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


def test_a_revoked_host_stays_out_until_it_is_heard_again(tls, authority):
    enrolled(authority, "h2")
    before_s = time.monotonic()
    assert not tls.is_out("h2", before_s)
    tls.learn(authority.revoke("h2"))
    assert [tls.is_out("h2", heard_s) for heard_s in (NEVER, before_s)] == [True, True]
    assert not tls.is_out("h2", time.monotonic()), "it has joined again: nobody else is heard"
    assert not tls.is_out("h3", NEVER)
    assert Tls("h1", tls.files).is_out("h2", NEVER), "a LIM that was restarted knows"


def test_a_replaced_host_is_known_where_the_authority_is(authority):
    files = enrolled(authority, "h1")
    enrolled(authority, "h2")
    here, elsewhere = Tls("h1", files, lambda: authority), Tls("h1", files)
    authority.revoke("h2")
    assert not has_new_certificate(here, "h2")
    enrolled(authority, "h2")
    assert has_new_certificate(here, "h2")
    assert not has_new_certificate(elsewhere, "h2")
    assert not has_new_certificate(here, "h3")


def test_a_host_that_joins_again_is_no_alarm_where_that_is_known(authority, caplog):
    caplog.set_level(logging.INFO, "lbd.tls")
    files = enrolled(authority, "h1")
    enrolled(authority, "h2")
    tls = Tls("h1", files, lambda: authority)
    tls.learn(authority.revoke("h2"))
    enrolled(authority, "h3")
    authority.revoke("h3")
    enrolled(authority, "h3")
    tls.learn(authority.signed_list())
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert said == [
        ("WARNING", "revoked, unless they join again: h2"),
        ("INFO", "joined again, so earlier certificates are revoked: h3"),
    ]


def test_a_caller_is_a_host_until_its_certificate_expires_or_is_revoked(tls, authority):
    shown, now_s = joined(authority, "h2").credentials.certificate.encode(), time.time()
    assert tls.host_of(shown, now_s) == "h2"
    with pytest.raises(PeerError, match="the certificate of h2 has expired"):
        tls.host_of(shown, now_s + 2 * DAY_S)
    tls.learn(authority.revoke("h2"))
    with pytest.raises(PeerError, match="h2 is revoked"):
        tls.host_of(shown, now_s)


def test_what_keeps_this_host_out_is_its_own_fault(authority, monkeypatch):
    tls, revoked = joined(authority, "h2"), joined(authority, "h3")
    assert own_fault(tls) == ""
    revoked.learn(authority.revoke("h3"))
    assert own_fault(revoked).startswith("this host, h3, is revoked; `lbctl doctor`")
    later_s = time.time() + 2 * DAY_S
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert own_fault(tls).startswith("the certificate of this host, h2, has expired, so no other")


def test_a_certificate_that_has_expired_is_known_until_another_is_shown(authority, monkeypatch):
    tls = joined(authority, "h1")
    first = joined(authority, "h2").credentials.certificate.encode()
    tls.host_of(first, time.time())
    assert not has_expired(tls, "h2")
    later_s = time.time() + 2 * DAY_S
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert has_expired(tls, "h2")
    assert not has_expired(tls, "h3"), "it has never called here"
    tls.host_of(joined(authority, "h2").credentials.certificate.encode(), later_s)
    assert not has_expired(tls, "h2")


def test_a_holder_of_a_token_is_no_host_whatever_it_has_signed_with_it(authority):
    """Where new hosts join, TLS accepts anything that a token's key has signed."""
    tls, now_s = Tls("h1", enrolled(authority, "h1"), lambda: authority), time.time()
    token = authority.new_token("", 60.0, now_s)
    tls._configuration()  # of the server: now it accepts new hosts
    issuer = Credentials(
        certificates.pem_of(certificates.token_key(token)), certificates.anchor_of(token, now_s)
    )
    key = certificates.private_key(certificates.new_key()).public_key()
    forged = certificates.signed(issuer, key, "h2", tuple(names_of("h2", 0)), now_s, 60.0)
    with pytest.raises(PeerError, match="only for hosts that have joined"):
        tls.host_of(forged, now_s)


def test_the_newest_list_of_revoked_hosts_applies_if_the_authority_has_signed_it(
    tls, authority, tmp_path
):
    for host in ("h2", "h3"):
        enrolled(authority, host)
    older, newer = authority.revoke("h2"), authority.revoke("h3")
    tls.learn(newer)
    tls.learn(older)
    another = made_authority(tmp_path / "another").credentials()
    with pytest.raises(PeerError, match="not signed"):
        tls.learn(sign(another, Revocations(99, {"h1": 1})))
    assert tls.files.read_revocations() == tls.revocations == authority.ledger().revocations()


def test_a_certificate_longer_than_any_of_ours_is_not_read_and_not_kept(tls):
    """Each took a tenth of a second where the authority is, and 130 KB permanently."""
    token = Token(bytes(SECRET_BYTES), bytes(FINGERPRINT_BYTES))
    issuer = Credentials(
        certificates.pem_of(certificates.token_key(token)),
        certificates.anchor_of(token, time.time()),
    )
    key = certificates.private_key(certificates.new_key()).public_key()
    shown = certificates.signed(issuer, key, "h2", ("h2",) * 3000, time.time(), 300.0)
    call = SimpleNamespace(auth_context=lambda: {"x509_pem_cert": [shown]})
    with pytest.raises(PeerError, match=f"a certificate of {len(shown)} bytes"):
        certificate_of(call)
    assert tls.asker(call) == NOBODY
    assert not tls.seen


def test_the_longest_certificate_of_the_authority_is_read(authority):
    host = ".".join(["h" * 60] * 4)
    made = certificates.signed(
        Credentials(authority.key_file.read_bytes(), authority.certificate),
        certificates.private_key(certificates.new_key()).public_key(),
        host, tuple(names_of(host, 10**DIGITS_MAX - 1)), time.time(), DAY_S,
    )  # fmt: skip
    assert len(made) <= CERTIFICATE_BYTES // 2
