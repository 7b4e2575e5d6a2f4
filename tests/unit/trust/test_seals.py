"""The signature on the cluster's settings: whose it is, and that of nothing else."""

import ssl
import time
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lbd.errors import PeerError
from lbd.trust import certificates, seals
from lbd.trust.names import Identity
from tests.unit.enrolment import enrolled, made_authority

TEXT = b"lim.min_gain = 0.5"


@pytest.fixture
def h2(authority):
    return enrolled(authority, "h2").read_credentials()


def test_the_signer_is_the_host_of_the_certificate(authority, h2):
    shown, signature = seals.sign(h2, TEXT)
    found = seals.signer_of(authority.certificate, shown, signature, TEXT)
    assert found == Identity("h2", 0)


def test_a_signature_is_for_one_text_and_for_settings_only(authority, h2):
    shown, signature = seals.sign(h2, TEXT)
    key = certificates.private_key(h2.key)
    of_plain_text = key.sign(TEXT, certificates.SIGNED_WITH)
    for wrong, text in ((signature, TEXT + b"1"), (of_plain_text, TEXT), (b"", TEXT)):
        with pytest.raises(PeerError, match="signature is invalid"):
            seals.signer_of(authority.certificate, shown, wrong, text)


def test_a_certificate_is_public_so_it_alone_signs_nothing(authority, h2):
    h3 = enrolled(authority, "h3").read_credentials()
    _, signature = seals.sign(h3, TEXT)
    shown = ssl.PEM_cert_to_DER_cert(h2.certificate)
    with pytest.raises(PeerError, match="signature is invalid"):
        seals.signer_of(authority.certificate, shown, signature, TEXT)


def test_a_host_of_another_cluster_signs_nothing(authority, tmp_path):
    """Anyone can make an authority of their own, and with it a certificate for any name."""
    other = made_authority(tmp_path / "other")
    shown, signature = seals.sign(enrolled(other, "h2").read_credentials(), TEXT)
    with pytest.raises(PeerError, match="not from this cluster"):
        seals.signer_of(authority.certificate, shown, signature, TEXT)


def test_a_certificate_of_this_cluster_that_names_no_host_signs_nothing(authority, h2):
    named = certificates.signed(
        authority.credentials(), certificates.private_key(h2.key).public_key(), "h2",
        ("0.h2.lbd.",), time.time(), 60.0,
    )  # fmt: skip
    shown, signature = seals.sign(replace(h2, chain=named), TEXT)
    with pytest.raises(PeerError, match="not from this cluster"):
        seals.signer_of(authority.certificate, shown, signature, TEXT)


def test_a_key_of_another_kind_signs_nothing(authority):
    """The authority certifies none, but what is shown may be anything."""
    key = ed25519.Ed25519PrivateKey.generate()
    parent = x509.load_pem_x509_certificate(authority.certificate)
    names = ("h2", "0.h2.lbd", "any.lbd")
    made = (
        x509.CertificateBuilder()
        .subject_name(certificates.common_name("h2"))
        .issuer_name(parent.subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(certificates.at(0.0))
        .not_valid_after(certificates.at(2e9))
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        .sign(certificates.private_key(authority.credentials().key), hashes.SHA256())
    )
    shown = made.public_bytes(serialization.Encoding.DER)
    signature = key.sign(seals.SETTINGS + TEXT)
    with pytest.raises(PeerError, match="signature is invalid"):
        seals.signer_of(authority.certificate, shown, signature, TEXT)


@pytest.mark.parametrize("is_authoritys", [True, False])
def test_what_is_no_hosts_certificate_signs_nothing(authority, h2, is_authoritys):
    _, signature = seals.sign(h2, TEXT)
    own = ssl.PEM_cert_to_DER_cert(authority.certificate.decode())
    with pytest.raises(PeerError, match="without a host's certificate"):
        seals.signer_of(
            authority.certificate, own if is_authoritys else b"garbage", signature, TEXT
        )
