"""TLS of the listener: this host's certificate is shown, one of the cluster's is asked for."""

import ssl
import time

from lbd.errors import PeerError
from lbd.net.tls import Tls


class ClusterTls:
    def __init__(self, tls: Tls, *, any_client: bool) -> None:
        """`any_client`: also those without a certificate."""
        self._tls = tls
        self._any_client = any_client
        self._made: tuple[int, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """As the certificate is by now: it is renewed while we run."""
        if self._made is None or self._made[0] != self._tls.generation:
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            made.load_cert_chain(self._tls.files.credentials)
            made.load_verify_locations(cadata=self._tls.files.read_authority().decode("ascii"))
            made.verify_mode = ssl.CERT_NONE if self._any_client else ssl.CERT_REQUIRED
            self._made = self._tls.generation, made
        return self._made[1]

    def check(self, connection: ssl.SSLObject) -> None:
        """Raises PeerError if the client is a host that is revoked."""
        if self._any_client:
            return
        certificate = connection.getpeercert(binary_form=True)
        if not certificate:
            raise PeerError("no certificate")
        self._tls.host_of(ssl.DER_cert_to_PEM_cert(certificate).encode(), time.time())
