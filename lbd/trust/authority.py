"""The cluster's authority: its key, who has a certificate, which tokens are out.

It lives in a directory of one host, and is as much as one file of JSON beside the key. `lbctl` and
the LIM of that host both change it, each under a lock, so it works whether the daemons run or not.
"""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lbd.errors import ConfigError, LbdError, PeerError
from lbd.trust import certificates
from lbd.trust.evidence import check_newcomer, check_renewal
from lbd.trust.files import Credentials, make_private_dir, opened, read, write_private
from lbd.trust.names import why_not
from lbd.trust.revocations import Revocations, parse
from lbd.trust.token import SECRET_BYTES, Token

NAME_SHOWN = 80  # characters of one that is refused
TOKENS_MAX = 256
# Where the daemons may know who has a certificate, but not sign one:
DIRECTORY_MODE, KEY_MODE, LEDGER_MODE = 0o750, 0o600, 0o640
TOKEN_KEPT_S = 86400.0  # after its end: long enough to say what became of it
TOKEN_LIFE_MAX_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Known:
    """A host that was given a certificate."""

    issue: int
    until_s: float  # UNIX time: of its newest certificate
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token as the authority remembers it: not what it takes to use it."""

    id: str
    anchor: str  # PEM
    until_s: float
    host: str = ""  # the only one that may join with it; "" = any
    used_by: str = ""


@dataclass(frozen=True, slots=True)
class Ledger:
    cluster: str
    home: str  # the host where this is
    number: int = 0  # of the list of revocations
    hosts: dict[str, Known] = field(default_factory=dict)
    tokens: tuple[TokenRecord, ...] = ()

    def revocations(self) -> Revocations:
        lowest = {
            host: known.issue + known.revoked
            for host, known in self.hosts.items()
            if known.issue + known.revoked > 0
        }
        return Revocations(self.number, lowest)

    def named_badly(self) -> list[str]:
        """Hosts with a certificate in a name that TLS could take for another host's.

        Earlier releases gave those out: their holders may have been others (see `trust.names`).
        """
        spelled: dict[str, set[str]] = {}
        for host in self.hosts:
            spelled.setdefault(host.lower(), set()).add(host)
        return sorted(
            host
            for host in self.hosts
            if host != self.home and (why_not(host) or len(spelled[host.lower()]) > 1)
        )

    def token(self, number: str) -> TokenRecord | None:
        return next((token for token in self.tokens if token.id == number), None)


class Authority:
    """The one in `root`. Whatever is refused is raised as LbdError, one line."""

    def __init__(self, root: Path, certificate_s: float) -> None:
        self.root = root
        self._certificate_s = certificate_s

    @property
    def ledger_file(self) -> Path:
        return self.root / "ledger.json"

    @property
    def key_file(self) -> Path:
        return self.root / "authority.pem"

    @property
    def has_key(self) -> bool:
        """Else another process has it."""
        return True

    def exists(self) -> bool:
        """Raises ConfigError if we may not look."""
        try:
            self.key_file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as problem:
            raise ConfigError(f"{self.root}: {problem.strerror}") from problem
        return True

    def create(self, cluster: str, home: str, now_s: float) -> None:
        if self.exists():
            raise ConfigError(f"there is an authority in {self.root} already")
        check_name(home)
        make_private_dir(self.root)
        self._save(Ledger(cluster, home))
        made = certificates.new_authority(cluster, now_s)
        write_private(self.key_file, made.key + made.chain)

    def credentials(self) -> Credentials:
        key, end, chain = read(self.key_file).partition(b"-----END PRIVATE KEY-----\n")
        if not end or not chain:
            raise ConfigError(f"{self.key_file}: not the key and certificate of an authority")
        return Credentials(key + end, chain)

    @property
    def certificate(self) -> bytes:
        return self.credentials().chain

    # -- what is remembered ----------------------------------------------------------------------

    def ledger(self) -> Ledger:
        try:
            found = json.loads(read(self.ledger_file))
            return Ledger(
                str(found["cluster"]),
                str(found["home"]),
                int(found["number"]),
                {str(host): Known(**known) for host, known in found["hosts"].items()},
                tuple(TokenRecord(**token) for token in found["tokens"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise ConfigError(f"{self.ledger_file} is damaged: {problem!r}") from None

    def _save(self, ledger: Ledger) -> None:
        fresh = self.ledger_file.with_suffix(".fresh")
        write_private(fresh, json.dumps(asdict(ledger), indent=1).encode())
        try:
            if self.root.stat().st_mode & stat.S_IRGRP:
                with opened_file(fresh) as file:
                    os.fchmod(file, LEDGER_MODE)
            fresh.rename(self.ledger_file)
        except OSError as problem:
            raise ConfigError(f"{self.ledger_file}: {problem.strerror}") from problem

    def keep_from(self, group: int) -> None:
        """As root: the key is root's alone from now on, the ledger for that group to read.

        The directory may have been the daemons' until now, and what it lies in still is. It becomes
        the working directory of this process. Raises ConfigError.
        """
        modes = {self.key_file: KEY_MODE, self.ledger_file: LEDGER_MODE}
        try:
            with opened(self.root) as directory:
                os.fchown(directory, 0, group)  # first: nobody else changes it after that
                os.fchmod(directory, DIRECTORY_MODE)
                os.fchdir(directory)
                self.root = Path()  # the same one for good, whatever is put in its place
                for path, mode in modes.items():
                    with opened_file(Path(path.name)) as file:
                        os.fchown(file, 0, group)
                        os.fchmod(file, mode)
        except OSError as problem:
            raise ConfigError(f"{self.root}: {problem.strerror}") from problem

    @contextmanager
    def _locked(self) -> Iterator[Ledger]:
        try:
            lock = os.open(self.root, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        except OSError as problem:
            raise ConfigError(f"{self.root}: {problem.strerror}") from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.ledger()
        finally:
            os.close(lock)

    # -- hosts -----------------------------------------------------------------------------------

    def join(self, token_id: str, host: str, request: bytes, now_s: float) -> bytes:
        """A new host's first certificate; the token is spent.

        A token for that very name also replaces a host that has it: its machine was made anew.
        """
        check_name(host)
        with self._locked() as ledger:
            token = ledger.token(token_id)
            check_token(token, token_id, host, now_s)
            spent = replace(ledger, tokens=tuple(
                replace(t, used_by=host) if t.id == token_id else t for t in ledger.tokens
            ))  # fmt: skip
            if token is not None and token.host == host and self._is_valid(spent, host, now_s):
                known = spent.hosts[host]
                hosts = {**spent.hosts, host: replace(known, revoked=True)}
                spent = replace(spent, hosts=hosts, number=spent.number + 1)
            return self._admit(spent, host, request, now_s)

    def join_shown(self, shown: bytes, host: str, request: bytes, now_s: float) -> bytes:
        """`join`, for who shows a certificate that a token's key has signed."""
        token = self.token_of(shown)
        check_newcomer(shown, host, request)
        return self.join(token.id, host, request, now_s)

    def token_of(self, shown: bytes) -> TokenRecord:
        """Raises PeerError if the caller shows something else."""
        for token in self.ledger().tokens:
            if certificates.is_signed_by(shown, token.anchor.encode()):
                return token
        raise PeerError("joining takes a token; `lbctl token create` makes one")

    def renew_shown(self, shown: bytes, request: bytes, proof: bytes, now_s: float) -> bytes:
        """`renew`, for who proves that it has the key of the certificate it shows."""
        identity = check_renewal(self.certificate, shown, request, proof, now_s)
        return self.renew(identity.host, identity.issue, request, now_s)

    def _is_valid(self, ledger: Ledger, host: str, now_s: float) -> bool:
        known = ledger.hosts.get(host)
        return known is not None and not known.revoked and known.until_s > now_s

    def admit(self, host: str, request: bytes, now_s: float) -> bytes:
        """A certificate without a token: for the authority's own host."""
        check_name(host)
        with self._locked() as ledger:
            return self._admit(ledger, host, request, now_s)

    def _admit(self, ledger: Ledger, host: str, request: bytes, now_s: float) -> bytes:
        for other in ledger.hosts:
            if other != host and other.lower() == host.lower():
                raise LbdError(
                    f"a host {other} has joined already, and {host} is the same name to TLS: give "
                    f"this one another name (--name)"
                )
            if other == host and self._is_valid(ledger, other, now_s):
                raise LbdError(
                    f"a host {other} has joined already and its certificate is valid: give this "
                    f"one another name (--name), or make a token to replace it: `lbctl token "
                    f"create {other}`"
                )
        before = ledger.hosts.get(host)
        issue = before.issue + before.revoked if before is not None else 0
        return self._sign(ledger, host, issue, request, now_s)

    def renew(self, host: str, issue: int, request: bytes, now_s: float) -> bytes:
        """For a host that has shown a valid certificate of that issue."""
        with self._locked() as ledger:
            known = ledger.hosts.get(host)
            if known is None or known.revoked or known.issue != issue:
                raise LbdError(f"{host} is revoked")
            return self._sign(ledger, host, issue, request, now_s)

    def _sign(self, ledger: Ledger, host: str, issue: int, request: bytes, now_s: float) -> bytes:
        check_name(host)
        credentials = self.credentials()
        made = certificates.sign_request(
            credentials, request, host, issue, now_s, self._certificate_s
        )
        hosts = {**ledger.hosts, host: Known(issue, now_s + self._certificate_s)}
        self._save(replace(ledger, hosts=hosts))
        return made + credentials.chain

    def revoke_named_badly(self) -> list[str]:
        """Those that had not been revoked before; the list of who is has grown then."""
        with self._locked() as ledger:
            found = [host for host in ledger.named_badly() if not ledger.hosts[host].revoked]
            if found:
                gone = {host: replace(ledger.hosts[host], revoked=True) for host in found}
                hosts = {**ledger.hosts, **gone}
                self._save(replace(ledger, hosts=hosts, number=ledger.number + 1))
        return found

    def revoke(self, host: str) -> bytes:
        """The new signed list."""
        with self._locked() as ledger:
            known = ledger.hosts.get(host)
            if known is None:
                names = ", ".join(sorted(ledger.hosts))
                raise ConfigError(f"no host {host!r} has a certificate; those that have: {names}")
            if host == ledger.home:
                raise ConfigError(f"{host} is where the authority is: it cannot be revoked")
            if known.revoked:
                raise ConfigError(f"{host} is revoked already")
            hosts = {**ledger.hosts, host: replace(known, revoked=True)}
            tokens = tuple(token for token in ledger.tokens if token.host != host)
            changed = replace(ledger, hosts=hosts, tokens=tokens, number=ledger.number + 1)
            self._save(changed)
        return self.signed_list()

    def signed_list(self) -> bytes:
        """Who is revoked, as it travels."""
        return sign(self.credentials(), self.ledger().revocations())

    # -- tokens ----------------------------------------------------------------------------------

    def new_token(self, host: str, life_s: float, now_s: float) -> Token:
        if host:
            check_name(host)
        if not 1.0 <= life_s <= TOKEN_LIFE_MAX_S:
            raise ConfigError("a token lives from 1 second to 30 days")
        fingerprint = certificates.fingerprint(self.certificate)
        token = Token(secrets.token_bytes(SECRET_BYTES), fingerprint)
        with self._locked() as ledger:
            kept = [t for t in ledger.tokens if now_s < t.until_s + TOKEN_KEPT_S]
            if len(kept) >= TOKENS_MAX:
                raise LbdError(f"{TOKENS_MAX} tokens are out already; `lbctl token revoke` some")
            anchor = certificates.anchor_of(token, now_s).decode()
            record = TokenRecord(token.id, anchor, now_s + life_s, host)
            self._save(replace(ledger, tokens=(*kept, record)))
        return token

    def revoke_token(self, number: str) -> None:
        with self._locked() as ledger:
            if ledger.token(number) is None:
                raise ConfigError(f"no token {number!r}; see `lbctl token list`")
            kept = tuple(token for token in ledger.tokens if token.id != number)
            self._save(replace(ledger, tokens=kept))


@contextmanager
def opened_file(path: Path) -> Iterator[int]:
    """A file that has no other name, and is no link. Raises OSError or ConfigError."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ConfigError(f"{path} is not what `lbctl init` has made")
        yield file
    finally:
        os.close(file)


def check_name(host: str) -> None:
    """Raises ConfigError if no certificate can be made for it."""
    if fault := why_not(host):
        raise ConfigError(f"host name {host[:NAME_SHOWN]!r} {fault}; give another with --name")


def check_token(token: TokenRecord | None, number: str, host: str, now_s: float) -> None:
    """Raises LbdError if `host` may not join with it."""
    if token is None:
        raise LbdError(f"token {number} is not known here")
    if token.used_by:
        raise LbdError(f"token {number} was used already, by {token.used_by}")
    if now_s > token.until_s:
        raise LbdError(f"token {number} ended {now_s - token.until_s:.0f} s ago")
    if token.host and token.host != host:
        raise LbdError(f"token {number} is for {token.host}, not for {host}")


def sign(authority: Credentials, revocations: Revocations) -> bytes:
    """As it travels and lies on disk: a line with the signature, then the text."""
    text = revocations.text().encode()
    return certificates.sign_text(authority, text) + b"\n" + text


def verified(signed: bytes, authority: bytes) -> Revocations:
    """Raises PeerError unless this authority has signed it."""
    signature, _, text = signed.partition(b"\n")
    if not certificates.is_text_signed_by(text, signature, authority):
        raise PeerError("a list of revoked hosts that the authority has not signed")
    return parse(text.decode("utf-8", "replace"))
