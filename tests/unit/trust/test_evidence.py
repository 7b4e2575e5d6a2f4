"""What a host shows for the certificate it wants, and what it checks of the one it is given. How
the signer treats it: tests/unit/net/test_signer.py."""

import base64
import ssl
import time

import pytest

from lbd.errors import PeerError
from lbd.trust import certificates, evidence, seals
from lbd.trust.files import first_certificate
from lbd.trust.names import Identity, names_of
from tests.unit.enrolment import enrolled, made_authority


@pytest.fixture
def h2(authority):
    return enrolled(authority, "h2").read_credentials()


def issued(authority, key, names):
    """Returns a certificate of the authority for this key with any names."""
    public = certificates.private_key(key).public_key()
    return certificates.signed(
        authority.credentials(), public, "h2", tuple(names), time.time(), 60.0
    )


def test_a_certificate_is_for_the_host_and_the_key_that_asked(authority, h2, tmp_path):
    root = authority.certificate
    evidence.check_issued(root, h2.chain, "h2", h2.key)
    for made, host, key in (
        (h2.chain, "h3", h2.key),
        (h2.chain, "h2", certificates.new_key()),
        (issued(authority, h2.key, names_of("h3", 0)), "h2", h2.key),
        (issued(authority, h2.key, ["0.h2.lbd."]), "h2", h2.key),  # names no host
        (issued(made_authority(tmp_path / "other"), h2.key, names_of("h2", 0)), "h2", h2.key),
    ):
        with pytest.raises(PeerError, match="the certificate is not for "):
            evidence.check_issued(root, made, host, key)
    for made in (b"garbage", root):  # the authority's own has no names
        with pytest.raises(PeerError, match="not a certificate"):
            evidence.check_issued(root, made, "h2", h2.key)


def test_a_certificate_is_renewed_from_its_first_to_its_last_second(authority, h2):
    request = certificates.new_request(certificates.new_key(), "h2")
    proof = evidence.proof_of_renewal(h2.key, request)
    shown, root = h2.certificate.encode(), authority.certificate
    begin_s, end_s = h2.valid_s
    for now_s in (begin_s, end_s):
        found = evidence.check_renewal(root, shown, request, proof, now_s)
        assert found == Identity("h2", 0)
    for now_s in (begin_s - 1.0, end_s + 1.0):
        with pytest.raises(PeerError, match="not a host's valid certificate"):
            evidence.check_renewal(root, shown, request, proof, now_s)


P256, UNKNOWN = bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d030163")


def with_unknown_curve(pem):
    """The same, with a key of a curve that no library knows."""
    head, *lines, foot = pem.decode().strip().splitlines()
    der = base64.b64decode("".join(lines)).replace(P256, UNKNOWN)
    assert UNKNOWN in der
    body = base64.encodebytes(der).decode()
    return f"{head}\n{body}{foot}\n".encode()


def test_keys_that_nobody_can_read_are_refused_in_one_line(authority, h2):
    """The library raises no ValueError then: such an answer ended the LIM that had asked."""
    own = first_certificate(h2.chain).encode()
    shown = with_unknown_curve(own)
    request = certificates.new_request(h2.key, "h2")
    odd = with_unknown_curve(request)
    now_s = time.time()
    for refused in (
        lambda: seals.signer_of(
            authority.certificate, ssl.PEM_cert_to_DER_cert(shown.decode()), b"", b""
        ),
        lambda: evidence.check_renewal(authority.certificate, shown, request, b"", now_s),
        lambda: evidence.check_newcomer(shown, "h2", request),
        lambda: evidence.check_newcomer(own, "h2", odd),
        lambda: evidence.check_issued(authority.certificate, shown, "h2", h2.key),
        lambda: certificates.sign_request(authority.credentials(), odd, "h2", 1, now_s, 60.0),
    ):
        with pytest.raises(PeerError):
            refused()
    assert not certificates.is_signed_by(shown, authority.certificate)
