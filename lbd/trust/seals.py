"""The signature on the cluster's settings: made with the key of a host's certificate, verified with
the authority's certificate.

A certificate that has expired since is as good as a valid one: settings are kept longer than a
certificate lasts, and are sent to hosts that join years later. A revoked one is not, which the
caller must check.
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

# prefix of the signed text, so that the signature serves no other purpose
SETTINGS = b"lbd settings\0"


def sign(own: Credentials, text: bytes) -> tuple[bytes, bytes]:
    """Returns the certificate, DER, and the signature."""
    signature = certificates.private_key(own.key).sign(SETTINGS + text, certificates.SIGNED_WITH)
    return ssl.PEM_cert_to_DER_cert(own.certificate), signature


def signer_of(authority: bytes, shown: bytes, signature: bytes, text: bytes) -> Identity:
    """Returns the signing host. `authority`: PEM. Raises PeerError unless a host of this authority
    has signed exactly this text."""
    with certificates.made_elsewhere("they come without a host's certificate"):
        certificate = x509.load_der_x509_certificate(shown)
        identity = identity_of(dns_names(certificate))
        key = certificate.public_key()
        pem = certificate.public_bytes(serialization.Encoding.PEM)
    if identity is None or not certificates.is_signed_by(pem, authority):
        raise PeerError("their certificate is not from this cluster")
    try:
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise InvalidSignature
        key.verify(signature, SETTINGS + text, certificates.SIGNED_WITH)
    except InvalidSignature:
        raise PeerError("the signature is invalid") from None
    return identity
