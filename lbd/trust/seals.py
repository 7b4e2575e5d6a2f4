"""The signature under the cluster's settings: made with the key of a host's certificate, checked
with the certificate of the authority.

A certificate that has ended since is as good as one that has not: settings are kept for longer than
a certificate lasts, and given to hosts that join years later. One that was revoked is not, which
the caller sees to.
"""

import ssl

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lbd.errors import PeerError
from lbd.trust import certificates
from lbd.trust.evidence import dns_names
from lbd.trust.files import Credentials
from lbd.trust.names import Identity, identity_of

SETTINGS = b"lbd settings\0"  # before what is signed: it is good for nothing else


def sign(own: Credentials, text: bytes) -> tuple[bytes, bytes]:
    """The certificate, DER, and the signature."""
    signature = certificates.private_key(own.key).sign(SETTINGS + text, certificates.SIGNED_WITH)
    return ssl.PEM_cert_to_DER_cert(own.certificate), signature


def signer_of(authority: bytes, shown: bytes, signature: bytes, text: bytes) -> Identity:
    """`authority`: PEM. Raises PeerError unless a host of it has signed just that."""
    try:
        certificate = x509.load_der_x509_certificate(shown)
        identity = identity_of(dns_names(certificate))
        key = certificate.public_key()
        pem = certificate.public_bytes(serialization.Encoding.PEM)
    except (ValueError, TypeError):
        raise PeerError("they come without a host's certificate") from None
    if identity is None or not certificates.is_signed_by(pem, authority):
        raise PeerError("their certificate is not from this cluster")
    try:
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        key.verify(signature, SETTINGS + text, certificates.SIGNED_WITH)
    except InvalidSignature:
        raise PeerError("the signature is invalid") from None
    return identity
