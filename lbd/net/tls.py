"""Mutual TLS between hosts: which certificate is shown, which are accepted, and whose they are.

A server admits nobody without a certificate of the cluster's authority: the handshake fails. On the
authority's host, the LIM also admits newcomers with a token, and `caller` refuses them everything
but joining. A client asks for the one host it means, by a name that contains the lowest issue it
accepts (see `trust.names`).

Certificates change while a daemon runs. A server fetches its own at every handshake (gRPC calls
`_fetch` on a thread of its own); a client's channels are replaced by new ones, and the old ones
take no new calls. Calls in progress continue on both sides, unless their host is revoked.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import ConfigError, LbdError, PeerError
from lbd.net.transport import HOST_HEADER, NOBODY, Call, CutCheck, Metadata, Options
from lbd.process.wake_ups import next_moment
from lbd.text.one_line import one_line
from lbd.trust import der
from lbd.trust.files import Credentials, HostFiles, first_certificate
from lbd.trust.names import ANY_HOST, Identity, asked_names, identity_of, issue_name
from lbd.trust.revocations import Revocations

if TYPE_CHECKING:
    from lbd.trust.authority import Authority

log = logging.getLogger("lbd.tls")

LOOK_S = 1.0  # how soon a changed file is noticed
SEEN_MAX = 4096  # callers' certificates, cached to avoid parsing them at each call
CERTIFICATE_BYTES = 8192  # the longest certificate of the authority has half of that

Stamp = tuple[int, int, int]
Find = Callable[[], "Authority | None"]


def stamp_of(path: Path) -> Stamp:
    """Returns a value that changes when the file is replaced."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


class Tls:
    """This host's certificate, and the hosts that it trusts."""

    proves_names = True

    def __init__(self, own_name: str, files: HostFiles, find: Find | None = None) -> None:
        """`find`: returns the authority on this host, through which the server admits newcomers.

        Raises ConfigError if the files are invalid.
        """
        self.metadata: Metadata = ((HOST_HEADER, own_name),)
        self.generation = 0
        self.files = files
        self._find = find
        self._admits = False  # newcomers may connect, so not every TLS peer is a host
        self._root = files.read_authority()
        self._served: tuple[Stamp, Stamp] | None = None
        self._openness = ""
        self._stamps = (stamp_of(files.credentials), stamp_of(files.revoked))
        self.credentials = files.read_credentials()
        self.identity = own_identity(own_name, files, self._root, self.credentials)
        self.revocations = files.read_revocations()
        self._learnt_s = dict.fromkeys(self.revocations.lowest, time.monotonic())
        self.seen: dict[bytes, tuple[Identity, float] | None] = {}
        self._held: dict[str, set[asyncio.Task[object]]] = {}
        self._ended: set[asyncio.Task[object]] = set()
        self._listeners: list[Callable[[set[str]], None]] = []
        self._server_credentials: grpc.ServerCredentials | None = None

    @property
    def own_name(self) -> str:
        return self.identity.host

    @property
    def authority(self) -> "Authority | None":
        """None if it is on another host, even if a copy is left here; also if this host is revoked:
        another copy is in use then. Raises ConfigError."""
        is_here = self.files.read_home()[0] in ("", self.own_name)
        if self._find is None or not is_here or self.is_revoked(self.identity):
            return None
        return self._find()

    # -- files that change -----------------------------------------------------------------------

    async def follow(self) -> None:
        """Loads replaced files for as long as the daemon runs."""
        while True:
            await next_moment(LOOK_S)
            self.look()

    def look(self) -> None:
        """Loads files that have changed on disk; warns if others can now read the key."""
        before_open, self._openness = self._openness, self.files.openness()
        if self._openness and not before_open:
            log.warning("%s", self._openness)
        credentials, revoked = stamp_of(self.files.credentials), stamp_of(self.files.revoked)
        before, self._stamps = self._stamps, (credentials, revoked)
        try:
            if credentials != before[0]:
                self._take_up(self.files.read_credentials())
            if revoked != before[1]:
                self._take_up_revocations(self.files.read_revocations())
        except LbdError as problem:
            log.warning("%s", problem)

    def _take_up(self, credentials: Credentials) -> None:
        self.identity = own_identity(self.own_name, self.files, self._root, credentials)
        self.credentials = credentials
        self.generation += 1
        log.info("using a new certificate of %s, valid for %.0f s", self.own_name, self.left_s)

    def _take_up_revocations(self, revocations: Revocations) -> None:
        before, self.revocations = self.revocations, revocations
        fresh = {
            host
            for host, lowest in revocations.lowest.items()
            if lowest > before.lowest_issue(host)
        }
        if not fresh:
            return
        say_revoked(self, fresh)
        if self.is_revoked(self.identity):
            log.warning("this host, %s, is revoked: join again with a new token", self.own_name)
        self._learnt_s |= dict.fromkeys(fresh, time.monotonic())
        for notify in self._listeners:
            notify(fresh)
        for host in fresh:
            for task in self._held.get(host, ()):
                self._ended.add(task)
                task.cancel()

    @property
    def left_s(self) -> float:
        """The seconds until our own certificate expires."""
        return self.credentials.valid_s[1] - time.time()

    # -- as a server -----------------------------------------------------------------------------

    def interceptor(self, cuts: set[str]) -> grpc.aio.ServerInterceptor:
        return CutCheck(cuts)

    def add_port(self, server: grpc.aio.Server, where: str) -> int:
        self._server_credentials = grpc.dynamic_ssl_server_credentials(
            self._configuration(),
            self._fetch,  # type: ignore[arg-type]  # None is allowed, despite the stubs
            require_client_authentication=True,
        )
        return server.add_secure_port(where, self._server_credentials)

    def _fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Runs at each handshake, on a gRPC thread. None means no change."""
        authority = self.authority
        ledger = authority.ledger_file if authority is not None else None
        stamps = (stamp_of(self.files.credentials), stamp_of(ledger) if ledger else (0, 0, 0))
        if stamps == self._served:
            return None
        found = self._configuration()
        self._served = stamps
        return found

    def _configuration(self) -> grpc.ServerCertificateConfiguration:
        own = self.files.read_credentials()
        roots = [self._root]
        authority = self.authority
        if authority is not None:
            self._admits = True
            roots += [token.anchor.encode() for token in authority.ledger().tokens]
        return grpc.ssl_server_certificate_configuration([(own.key, own.chain)], b"".join(roots))

    async def caller(self, context: Call) -> str:
        """Returns the calling host. Aborts the call if it is revoked, expired or not a host."""
        try:
            return self.host_of(certificate_of(context), time.time())
        except PeerError as problem:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(problem))

    def asker(self, context: Call) -> str:
        """Returns whom to charge. A revoked host is not charged as its namesake that has joined."""
        try:
            identity = self.identity_of(certificate_of(context), time.time())
        except PeerError:
            return NOBODY
        return f"{identity.host} (revoked)" if self.is_revoked(identity) else identity.host

    def host_of(self, certificate: bytes, now_s: float) -> str:
        """Returns the host of a certificate. Raises PeerError if it must be refused."""
        identity = self.identity_of(certificate, now_s)
        if self.is_revoked(identity):
            raise PeerError(f"{identity.host} is revoked")
        return identity.host

    def is_out(self, host: str, heard_s: float) -> bool:
        """Returns whether the host was revoked and has not joined again, as far as is known here.
        `heard_s`: when it last proved its identity, on the monotonic clock."""
        if host == self.own_name:
            return self.is_revoked(self.identity)
        return host in self._learnt_s and heard_s <= self._learnt_s[host]

    def is_revoked(self, identity: Identity) -> bool:
        return identity.issue < self.revocations.lowest_issue(identity.host)

    def identity_of(self, certificate: bytes, now_s: float) -> Identity:
        """Also returns a revoked one. Raises PeerError if it has expired or is not a host's."""
        if certificate not in self.seen:
            if len(self.seen) >= SEEN_MAX:
                self.seen.clear()
            self.seen[certificate] = self._read(certificate)
        found = self.seen[certificate]
        if found is None:
            raise PeerError("only for hosts that have joined")
        identity, until_s = found
        if now_s > until_s:
            raise PeerError(f"the certificate of {identity.host} has expired")
        return identity

    def _read(self, certificate: bytes) -> tuple[Identity, float] | None:
        try:
            identity = identity_of(names_in(certificate.decode("ascii")))
            until_s = der.valid_s(ssl.PEM_cert_to_DER_cert(certificate.decode("ascii")))[1]
        except ValueError:
            return None
        # TLS has verified that it is the authority's, unless the server trusts other issuers, too.
        if identity is None or (self._admits and not is_of(self._root, certificate)):
            return None
        return identity, until_s

    @contextmanager
    def held(self, caller: str) -> Iterator[None]:
        """Wraps a long call. Raises PeerError inside it if its caller is revoked."""
        task = asyncio.current_task()
        assert task is not None
        tasks = self._held.setdefault(caller, set())
        tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise PeerError(f"{caller} is revoked") from None
        finally:
            self._ended.discard(task)
            tasks.discard(task)
            if not tasks and self._held.get(caller) is tasks:
                del self._held[caller]

    # -- as a client -----------------------------------------------------------------------------

    def when_revoked(self, notify: Callable[[set[str]], None]) -> None:
        self._listeners.append(notify)

    def channel(self, name: str, target: str, options: Options) -> grpc.aio.Channel:
        own = self.credentials
        wanted = issue_name(name, self.revocations.lowest_issue(name)) if name else ANY_HOST
        named: list[tuple[str, int | str]] = [*options, ("grpc.ssl_target_name_override", wanted)]
        root = narrowed_to(name, self._root) if name else self._root
        credentials = grpc.ssl_channel_credentials(root, own.key, own.chain)
        return grpc.aio.secure_channel(target, credentials, options=named)

    # -- news of revocations ---------------------------------------------------------------------

    def learn(self, signed: bytes) -> None:
        """Stores a newer list of revocations, with the authority's host. Raises PeerError if the
        authority has not signed it."""
        from lbd.trust.authority import verified
        from lbd.trust.files import write_private
        from lbd.trust.revocations import revocations_in

        said = revocations_in(signed)
        self.look()  # another daemon of this host may have learnt a newer one
        if said.number <= self.revocations.number:
            return
        verified(signed, self._root)
        if said.home and said.home.split() != list(self.files.read_home()):
            write_private(self.files.home, f"{said.home}\n".encode())
            log.warning("the authority is now on %s", one_line(said.home))
        self.files.write_signed(signed)  # last: the same list is not accepted twice
        self.look()


def narrowed_to(name: str, root: bytes) -> bytes:
    """Returns the authority's certificate, restricted to this host's names: gRPC compares names
    loosely."""
    authority = ssl.PEM_cert_to_DER_cert(first_certificate(root))
    return ssl.DER_cert_to_PEM_cert(der.narrowed(authority, asked_names(name))).encode()


def own_identity(
    own_name: str, files: HostFiles, root: bytes, credentials: Credentials
) -> Identity:
    """Raises ConfigError unless the certificate is this host's, matches its key and was issued by
    the authority."""
    try:
        checked = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        checked.load_verify_locations(cadata=root.decode("ascii"))
        checked.load_cert_chain(files.credentials)
        credentials.valid_s  # noqa: B018  # raises
        identity = identity_of(names_in(credentials.certificate))
    except (ValueError, OSError) as problem:
        why = getattr(problem, "reason", None) or problem
        raise ConfigError(f"{files.credentials}: {why}; join again") from None
    if identity is None:
        raise ConfigError(f"{files.credentials}: not a host's certificate; join again")
    if identity.host != own_name:
        raise ConfigError(
            f"{files.credentials} is the certificate of {identity.host}, but this host is "
            f"{own_name}: set host.name, or remove {files.root} and join again"
        )
    return identity


def is_of(authority: bytes, certificate: bytes) -> bool:
    from lbd.trust.certificates import is_signed_by

    return is_signed_by(certificate, authority)


def certificate_of(context: Call) -> bytes:
    """Returns the caller's certificate, PEM. Raises PeerError without one, or if it is longer than
    any of ours: the holder of a token can make one of 100 KB, and another for each call."""
    found = context.auth_context().get("x509_pem_cert")
    if not found:
        raise PeerError("no certificate")
    certificate: bytes = next(iter(found))
    if len(certificate) > CERTIFICATE_BYTES:
        raise PeerError(f"a certificate of {len(certificate)} bytes")
    return certificate


def names_in(certificate: str) -> list[str]:
    """Returns the DNS names of a PEM certificate. Raises ValueError if it is none."""
    return der.dns_names(ssl.PEM_cert_to_DER_cert(certificate))


def has_new_certificate(tls: Tls, host: str) -> bool:
    """Returns whether a revoked host has joined again, as far as the authority here knows."""
    try:
        known = tls.authority.ledger().hosts.get(host) if tls.authority else None
    except LbdError:
        return False
    return known is not None and not known.revoked


def has_expired(tls: Tls, host: str) -> bool:
    """Returns whether the host has called here, and the last certificate that it showed has
    expired."""
    ends_s = [one[1] for one in tls.seen.values() if one and one[0].host == host]
    return bool(ends_s) and max(ends_s) < time.time()


def own_fault(trust: object) -> str:
    """Returns why no other host accepts this one's calls; "" if nothing of the kind is known."""
    if not isinstance(trust, Tls):
        return ""
    if trust.is_revoked(trust.identity):
        return f"this host, {trust.own_name}, is revoked; `lbctl doctor` says what to do"
    if trust.left_s > 0:
        return ""
    return (
        f"the certificate of this host, {trust.own_name}, has expired, so no other host accepts "
        "its calls; `lbctl doctor` says what to do"
    )


def say_revoked(tls: Tls, fresh: set[str]) -> None:
    """A host that joins again has its earlier certificates revoked: no alarm. Only the
    authority's host can tell."""
    again = {host for host in fresh if has_new_certificate(tls, host)}
    if again:
        names = one_line(", ".join(sorted(again)))
        log.info("joined again, so earlier certificates are revoked: %s", names)
    if out := fresh - again:
        log.warning("revoked, unless they join again: %s", one_line(", ".join(sorted(out))))
