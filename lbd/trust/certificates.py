"""Makes and checks certificates: P-256 throughout, since it is fast and every TLS supports it."""

import contextlib
import datetime
import hashlib
from collections.abc import Iterator

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lbd.errors import PeerError
from lbd.trust.files import Credentials, first_certificate
from lbd.trust.names import names_of
from lbd.trust.token import Token

AUTHORITY_YEARS = 20
CLOCK_SKEW_S = 300.0  # a host whose clock is this far behind can still join
CURVE = ec.SECP256R1()
SIGNED_WITH = ec.ECDSA(hashes.SHA256())


def new_key() -> bytes:
    return pem_of(ec.generate_private_key(CURVE))


def pem_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def begun(subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(common_name(subject))
        .public_key(key)
        .serial_number(x509.random_serial_number())
    )


def at(unix_s: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC)


def self_signed(key: ec.EllipticCurvePrivateKey, subject: str, now_s: float) -> bytes:
    """Returns a trust anchor, which may issue certificates but not further authorities."""
    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
         "key_agreement", "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    certificate = (
        begun(subject, key.public_key())
        .issuer_name(common_name(subject))
        .not_valid_before(at(now_s - CLOCK_SKEW_S))
        .not_valid_after(at(now_s + AUTHORITY_YEARS * 365.25 * 86400))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def new_authority(cluster: str, now_s: float) -> Credentials:
    key = ec.generate_private_key(CURVE)
    return Credentials(pem_of(key), self_signed(key, f"lbd authority of {cluster}", now_s))


def anchor_of(token: Token, now_s: float) -> bytes:
    """Returns the certificate a server trusts while the token is valid."""
    return self_signed(token_key(token), f"lbd token {token.id}", now_s)


def token_key(token: Token) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(token.private_number, CURVE)


def certificate_of_newcomer(token: Token, key: bytes, host: str, now_s: float) -> bytes:
    """Returns a certificate made by the newcomer itself, which proves that it has the token and the
    key it wants certified."""
    issuer = Credentials(pem_of(token_key(token)), anchor_of(token, now_s))
    return signed(issuer, private_key(key).public_key(), host, (host,), now_s, CLOCK_SKEW_S)


def new_request(key: bytes, host: str) -> bytes:
    request = x509.CertificateSigningRequestBuilder().subject_name(common_name(host))
    signed_request = request.sign(private_key(key), hashes.SHA256())
    return signed_request.public_bytes(serialization.Encoding.PEM)


def sign_request(
    authority: Credentials, request: bytes, host: str, issue: int, now_s: float, life_s: float
) -> bytes:
    """Returns a certificate for the key of `request`; names in the request are ignored.

    Raises PeerError if it is not a valid request.
    """
    with made_elsewhere("not a certificate request"):
        read = x509.load_pem_x509_csr(request)
        key = read.public_key()
        proven = read.is_signature_valid
    if not proven or not isinstance(key, ec.EllipticCurvePublicKey):
        raise PeerError("the certificate request does not prove possession of its key")
    names = tuple(names_of(host, issue))
    return signed(authority, key, host, names, now_s, life_s)


def signed(
    issuer: Credentials,
    key: ec.EllipticCurvePublicKey,
    subject: str,
    names: tuple[str, ...],
    now_s: float,
    life_s: float,
) -> bytes:
    parent = x509.load_pem_x509_certificate(issuer.chain)
    until = min(at(now_s + life_s), parent.not_valid_after_utc)
    certificate = (
        begun(subject, key)
        .issuer_name(parent.subject)
        .not_valid_before(at(now_s - min(CLOCK_SKEW_S, life_s / 10)))
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, names))), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .sign(private_key(issuer.key), hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def fingerprint(pem: bytes) -> bytes:
    certificate = x509.load_pem_x509_certificate(first_certificate(pem).encode())
    der = certificate.public_bytes(serialization.Encoding.DER)
    return hashlib.sha256(der).digest()


def is_signed_by(certificate: bytes, issuer: bytes) -> bool:
    try:
        child = x509.load_pem_x509_certificate(certificate)
        child.verify_directly_issued_by(x509.load_pem_x509_certificate(issuer))
    except Exception:  # as in `made_elsewhere`
        return False
    return True


@contextlib.contextmanager
def made_elsewhere(fault: str) -> Iterator[None]:
    """Raises PeerError where a certificate or request that somebody else has made cannot be read,
    whatever the library raises then: of an unknown curve, or an extension that comes twice, it is
    not a ValueError."""
    try:
        yield
    except Exception:
        raise PeerError(fault) from None


def sign_text(authority: Credentials, text: bytes) -> bytes:
    """Returns the signature in hexadecimal."""
    return private_key(authority.key).sign(text, SIGNED_WITH).hex().encode()


def is_text_signed_by(text: bytes, signature: bytes, authority: bytes) -> bool:
    key = x509.load_pem_x509_certificate(authority).public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    try:
        key.verify(bytes.fromhex(signature.decode("ascii", "replace")), text, SIGNED_WITH)
    except (ValueError, InvalidSignature):
        return False
    return True
