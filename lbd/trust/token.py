"""A join token: what a new host needs to trust the cluster, and to be trusted by it.

It holds a secret and the fingerprint of the authority's certificate. The secret never travels: both
sides derive a private key from it. The authority's host trusts certificates signed by that key for
joining only. So its port need not admit callers without a certificate, and nobody who listens, or
answers in that host's place, learns anything from a token that is used.
"""

import base64
import hashlib
from dataclasses import dataclass

from lbd.errors import ConfigError

PREFIX = "lbd1-"
SECRET_BYTES = 16
FINGERPRINT_BYTES = 32
CHECKSUM_BYTES = 4
ORDER_P256 = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
FIX = "copy all of it, or create another with `lbctl token create`"


@dataclass(frozen=True, slots=True)
class Token:
    secret: bytes
    fingerprint: bytes  # SHA-256 of the authority's certificate

    def text(self) -> str:
        body = self.secret + self.fingerprint
        packed = base64.urlsafe_b64encode(body + checksum(body)).decode()
        return PREFIX + packed.rstrip("=")

    @property
    def id(self) -> str:
        """The token's name in lists; reveals nothing of the secret."""
        return hashlib.sha256(b"lbd token id" + self.secret).hexdigest()[:8]

    @property
    def private_number(self) -> int:
        """Returns the P-256 private key derived from the secret."""
        digest = hashlib.sha512(b"lbd token key" + self.secret).digest()
        return int.from_bytes(digest, "big") % (ORDER_P256 - 1) + 1


def checksum(body: bytes) -> bytes:
    return hashlib.sha256(b"lbd token" + body).digest()[:CHECKSUM_BYTES]


def parse(text: str) -> Token:
    """Raises ConfigError if it is incomplete."""
    if not text.startswith(PREFIX):
        raise ConfigError(f"not a token: a token begins with {PREFIX}; {FIX}")
    packed = text.removeprefix(PREFIX)
    try:
        body = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except ValueError:
        body = b""
    known, check = body[:-CHECKSUM_BYTES], body[-CHECKSUM_BYTES:]
    if len(known) != SECRET_BYTES + FINGERPRINT_BYTES or check != checksum(known):
        raise ConfigError(f"the token is cut short or mistyped; {FIX}")
    return Token(known[:SECRET_BYTES], known[SECRET_BYTES:])


def joining_command(target: str, token: str) -> str:
    """Uses `echo`, a shell builtin, since the arguments of a program are visible to every user."""
    return f"echo {token} | lbctl join {target} -"
