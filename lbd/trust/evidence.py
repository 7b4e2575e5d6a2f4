"""The evidence a host shows for the certificate it wants, so that the signer need not trust the
asker.

The authority's key may be in a process of its own (`lbd authority`), which the LIM asks. An
intruder in the LIM's account can ask there, too. So a newcomer shows a certificate signed by its
token's key, and a host shows its old certificate and a signature with that one's key. Neither is
valid for another key than the host's own.
"""

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lbd.errors import PeerError
from lbd.trust import certificates
from lbd.trust.names import Identity, identity_of

# prefix of the signed text, so that the signature serves no other purpose
RENEWAL = b"lbd renewal\0"


def proof_of_renewal(key: bytes, request: bytes) -> bytes:
    """`key`: that of the certificate to replace, PEM."""
    return certificates.private_key(key).sign(RENEWAL + request, certificates.SIGNED_WITH)


def check_newcomer(shown: bytes, host: str, request: bytes) -> None:
    """`shown`: the certificate signed by a token's key. Raises PeerError unless it is for that
    name, and for the key of the request."""
    with certificates.made_elsewhere("not a certificate request"):
        certificate = x509.load_pem_x509_certificate(shown)
        asked = x509.load_pem_x509_csr(request)
        same = public(certificate) == public(asked)
        names = dns_names(certificate)
    if not same or names != [host]:
        raise PeerError("the token's signature is for another name or key")


def check_renewal(
    authority: bytes, shown: bytes, request: bytes, proof: bytes, now_s: float
) -> Identity:
    """Returns the host of the certificate `shown`. Raises PeerError unless it is valid and its key
    has signed the request."""
    with certificates.made_elsewhere("not a host's certificate"):
        certificate = x509.load_pem_x509_certificate(shown)
        identity = identity_of(dns_names(certificate))
        key = certificate.public_key()
    good = certificate.not_valid_before_utc <= certificates.at(now_s)
    good = good and certificates.at(now_s) <= certificate.not_valid_after_utc
    if identity is None or not good or not certificates.is_signed_by(shown, authority):
        raise PeerError("not a host's valid certificate")
    try:
        assert isinstance(key, ec.EllipticCurvePublicKey)
        key.verify(proof, RENEWAL + request, certificates.SIGNED_WITH)
    except InvalidSignature:
        raise PeerError(
            f"{identity.host} does not prove possession of its certificate's key"
        ) from None
    return identity


def check_issued(authority: bytes, made: bytes, host: str, key: bytes) -> None:
    """Checks a certificate that this host was issued. Raises PeerError unless it comes from that
    authority and is for that name and key."""
    with certificates.made_elsewhere("not a certificate"):
        certificate = x509.load_pem_x509_certificate(made)
        identity = identity_of(dns_names(certificate))
        good = certificate.public_key() == certificates.private_key(key).public_key()
    good = good and identity is not None and identity.host == host
    if not (good and certificates.is_signed_by(made, authority)):
        raise PeerError(f"the certificate is not for {host} and its key")


def public(holder: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return holder.public_key().public_bytes(serialization.Encoding.DER, form)


def dns_names(certificate: x509.Certificate) -> list[str]:
    """Raises ValueError if it has none."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        raise ValueError("no names") from None
    return found.value.get_values_for_type(x509.DNSName)
