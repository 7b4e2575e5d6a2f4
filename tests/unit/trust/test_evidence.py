"""What a host shows for the certificate it wants, and what it checks of the one it is given. How
the signer treats it: tests/unit/net/test_signer.py."""

import time

import pytest

from lbd.errors import PeerError
from lbd.trust import certificates, evidence
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
