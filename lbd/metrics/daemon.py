"""`lbd metrics`: shows the metrics of this host's daemons to monitoring programs over HTTP.

It is a process of its own, started only if `metrics.listen` is set. So the process that reads
strangers' requests has no jobs, no user's descriptors and no decisions, and can report that the LBM
is down. It asks the daemons over their local sockets and keeps nothing but the last page.

If another program has the port, the process goes on: the problem is logged once, shown by `lbctl
doctor`, and the port is tried again.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lbd import __version__
from lbd.config.metrics import is_loopback, listen_address
from lbd.config.schema import Config
from lbd.errors import ConfigError, PeerError
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, Refusal
from lbd.metrics.collector import Collector
from lbd.metrics.server import MetricsServer
from lbd.net.tls import Tls
from lbd.net.trusted import trust_of
from lbd.process.own_figures import OwnFigures

log = logging.getLogger("lbd.metrics")

BIND_AGAIN_S = 5.0


def check(config: Config) -> Tls | None:
    """Returns this host's certificate if the listener needs one. Raises ConfigError."""
    listen = config.metrics.listen
    if not listen:
        raise ConfigError('metrics.listen is not set: [metrics] listen = "127.0.0.1:9470"')
    address, _ = listen_address(listen, config.host.address)
    if is_loopback(address):
        return None
    trust = trust_of(config)
    if not isinstance(trust, Tls):
        raise ConfigError(
            f"metrics.listen {listen}: without certificates, metrics are served on loopback only; "
            "use 127.0.0.1, or get certificates with `lbctl init` or `lbctl join`"
        )
    return trust


class Metrics:
    def __init__(
        self, config: Config, shown: Tls | None, daemons: Callable[[], Sequence[str]]
    ) -> None:
        """`shown`: the certificate of the listener; None without TLS. `daemons`: the names of those
        that should run here now."""
        self._address = listen_address(config.metrics.listen, config.host.address)
        self._own_trust = shown
        self._trust = shown or own_certificate(config)
        self._figures = OwnFigures()
        self.collector = Collector(Path(config.host.runtime_dir), daemons, self._own)
        secure = None
        if shown is not None:
            secure = ClusterTls(shown, any_client=config.metrics.clients == "any")
        context, seen = (secure.context, (secure.check,)) if secure else (None, ())
        self.server = MetricsServer(self.collector.page, self.collector.unready, context, *seen)
        self.trouble = ""

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set."""
        beside = [asyncio.create_task(self._listen(), name="listen")]
        if self._trust is not None:
            follow = asyncio.create_task(self._trust.follow(), name="follow the certificates")
            beside.append(follow)
        try:
            await stop.wait()
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self.server.close()
            await self.collector.close()

    async def _listen(self) -> None:
        """Tries until the port is ours."""
        address, port = self._address
        while True:
            try:
                self.server.listen(address, port)
            except OSError as problem:
                trouble = f"cannot listen on {address}:{port}: {problem.strerror}"
                if trouble != self.trouble:
                    log.warning("%s; retrying (metrics.listen)", trouble)
                self.trouble = trouble
                await asyncio.sleep(BIND_AGAIN_S)
            else:
                self.trouble = ""
                said = "TLS" if self._own_trust is not None else "no TLS"
                log.info("serving metrics on %s:%d, %s", address, port, said)
                return

    async def answer(self, request: Json, _caller: Caller) -> Json:
        """Answers questions of the doctor and the lab. Raises Refusal."""
        match request.get("op"):
            case "status":
                address, port = self._address
                secure = self._own_trust is not None
                return {"address": address, "port": port, "tls": secure, "trouble": self.trouble}
            case "cut":  # it talks to its own host only
                return {}
        raise Refusal(f"unknown operation {str(request.get('op'))[:40]!r}")

    def _own(self) -> Json:
        own: Json = {
            **self._figures.answer(),
            "release_info": [[__version__, 1]],
            "scrapes": [[status, count] for status, count in self.server.statuses.items()],
            "scrape_connections_refused": [[why, n] for why, n in self.server.refused.items()],
        }
        if self._trust is not None:
            own["certificate_expiry_timestamp_seconds"] = self._trust.credentials.valid_s[1]
        return own


def own_certificate(config: Config) -> Tls | None:
    """Returns this host's certificate, if it has one, to report when it expires."""
    try:
        trust = trust_of(config)
    except ConfigError as problem:
        log.warning("%s", problem)
        return None
    return trust if isinstance(trust, Tls) else None


class ClusterTls:
    """TLS of the listener: shows this host's certificate and asks for one of the cluster's."""

    def __init__(self, tls: Tls, *, any_client: bool) -> None:
        """`any_client`: also accept clients without a certificate."""
        self._tls = tls
        self._any_client = any_client
        self._made: tuple[int, ssl.SSLContext] | None = None

    def context(self) -> ssl.SSLContext:
        """Returns the context for the current certificate, which is renewed while we run."""
        if self._made is None or self._made[0] != self._tls.generation:
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            made.minimum_version = ssl.TLSVersion.TLSv1_2
            made.load_cert_chain(self._tls.files.credentials)
            made.load_verify_locations(cadata=self._tls.files.read_authority().decode("ascii"))
            made.verify_mode = ssl.CERT_NONE if self._any_client else ssl.CERT_REQUIRED
            self._made = self._tls.generation, made
        return self._made[1]

    def check(self, connection: ssl.SSLObject) -> None:
        """Raises PeerError if the client is a revoked host."""
        if self._any_client:
            return
        certificate = connection.getpeercert(binary_form=True)
        if not certificate:
            raise PeerError("no certificate")
        self._tls.host_of(ssl.DER_cert_to_PEM_cert(certificate).encode(), time.time())
