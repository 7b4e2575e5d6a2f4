"""The cluster's authority: its key, the issued certificates, the open tokens.

It lives in a directory of one host, as one JSON file beside the key. `lbctl` and that host's LIM
both change it, each under a lock, so it works whether the daemons run or not.
"""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from lbd.errors import ConfigError, LbdError, PeerError
from lbd.trust import certificates
from lbd.trust.evidence import check_newcomer, check_renewal
from lbd.trust.files import (
    EMPTY,
    Credentials,
    HostFiles,
    is_there,
    make_private_dir,
    opened,
    read,
    write_private,
)
from lbd.trust.ledger import Known, Ledger, TokenRecord, read_ledger
from lbd.trust.names import why_not
from lbd.trust.revocations import Revocations, parse, revocations_in
from lbd.trust.token import SECRET_BYTES, Token

NAME_SHOWN = 80  # characters shown of a refused name
TOKENS_MAX = 256
USES_MAX = 256  # of one token
# Modes where the daemons may read who has a certificate, but not sign one.
DIRECTORY_MODE, KEY_MODE, LEDGER_MODE = 0o750, 0o600, 0o640
TOKEN_KEPT_S = 86400.0  # after its end: long enough to report what became of it
TOKEN_LIFE_MAX_S = 30 * 86400.0


class Authority:
    """The authority in `root`. Every refusal is an LbdError, one line."""

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
        """Returns False if another process holds the key."""
        return True

    def exists(self) -> bool:
        """Raises ConfigError if we may not look."""
        return is_there(self.key_file, self.root)

    def create(self, cluster: str, home: str, now_s: float) -> None:
        if self.exists():
            raise ConfigError(f"{self.root} already contains an authority")
        check_name(home)
        make_private_dir(self.root)
        self._save(Ledger(cluster, home))
        made = certificates.new_authority(cluster, now_s)
        write_private(self.key_file, made.key + made.chain)

    def credentials(self) -> Credentials:
        key, end, chain = read(self.key_file).partition(b"-----END PRIVATE KEY-----\n")
        if not chain:
            raise ConfigError(f"{self.key_file}: not an authority's key and certificate")
        return Credentials(key + end, chain)

    @property
    def certificate(self) -> bytes:
        return self.credentials().chain

    # -- the ledger ------------------------------------------------------------------------------

    def ledger(self) -> Ledger:
        return read_ledger(self.ledger_file)

    def _save(self, ledger: Ledger) -> None:
        try:
            is_shown = self.root.stat().st_mode & stat.S_IRGRP
        except OSError as problem:
            raise ConfigError(f"{self.ledger_file}: {problem.strerror}") from problem
        data = json.dumps(asdict(ledger), indent=1).encode()
        write_private(self.ledger_file, data, LEDGER_MODE if is_shown else KEY_MODE)

    def keep_from(self, group: int) -> None:
        """As root: makes the key readable by root alone, the ledger by that group.

        `root_directory.check_root_directory` has verified that nobody else can change the
        directory. It becomes this process's working directory. Raises ConfigError.
        """
        with opened_root(self.root) as directory:
            give_ledger(directory, group)
            os.fchdir(directory)
            self.root = Path()  # stays the same one, whatever is put in its place

    def show_to(self, group: int) -> None:
        """Like `keep_from`, for other processes to use. Raises ConfigError."""
        with opened_root(self.root) as directory:
            give_ledger(directory, group)

    @contextmanager
    def _locked(self) -> Iterator[Ledger]:
        try:
            lock = os.open(self.root, os.O_DIRECTORY)
        except OSError as problem:
            raise ConfigError(f"{self.root}: {problem.strerror}") from problem
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.ledger()
        finally:
            os.close(lock)

    # -- hosts -----------------------------------------------------------------------------------

    def join(self, token_id: str, host: str, request: bytes, now_s: float) -> bytes:
        """Returns a new host's first certificate; one use of the token is spent.

        A token for that very name also replaces a host that has it: a reinstalled machine.
        """
        check_name(host)
        with self._locked() as ledger:
            token = usable_token(ledger, token_id, host, now_s)
            used_by = (*token.used_by, host)
            used = replace(token, used_by=used_by, uses_left=token.uses_left - 1)
            tokens = tuple(used if one is token else one for one in ledger.tokens)
            spent = replace(ledger, tokens=tokens)
            if token.host == host and self._is_valid(spent, host, now_s):
                spent = spent.without(host)
            return self._admit(spent, host, request, now_s)

    def join_shown(self, shown: bytes, host: str, request: bytes, now_s: float) -> bytes:
        """Like `join`, for a caller that shows a certificate signed by a token's key."""
        token = self.token_of(shown)
        check_newcomer(shown, host, request)
        return self.join(token.id, host, request, now_s)

    def token_of(self, shown: bytes) -> TokenRecord:
        """Raises PeerError if the caller shows something else."""
        for token in self.ledger().tokens:
            if certificates.is_signed_by(shown, token.anchor.encode()):
                return token
        raise PeerError("joining needs a token; `lbctl token create` creates one")

    def renew_shown(self, shown: bytes, request: bytes, proof: bytes, now_s: float) -> bytes:
        """Like `renew`, for a caller that proves it has the key of the certificate it shows."""
        identity = check_renewal(self.certificate, shown, request, proof, now_s)
        return self.renew(identity.host, identity.issue, request, now_s)

    def _is_valid(self, ledger: Ledger, host: str, now_s: float) -> bool:
        known = ledger.hosts.get(host)
        return known is not None and not known.revoked and known.until_s > now_s

    def replace_home(self, host: str, now_s: float) -> bool:
        """Revokes the certificate of the authority's own host, whose files are lost; another is
        issued next. The holder of the key may do that. Returns False if there is none."""
        with self._locked() as ledger:
            if host != ledger.home or not self._is_valid(ledger, host, now_s):
                return False
            self._save(ledger.without(host))
        return True

    def admit(self, host: str, request: bytes, now_s: float) -> bytes:
        """Issues a certificate without a token, for the authority's own host."""
        with self._locked() as ledger:
            return self._admit(ledger, host, request, now_s)

    def _admit(self, ledger: Ledger, host: str, request: bytes, now_s: float) -> bytes:
        for other in ledger.hosts:
            if other != host and other.lower() == host.lower():
                raise LbdError(
                    f"host {other} has already joined, and TLS cannot tell it from {host}: give "
                    "this host another name (--name)"
                )
            if other == host and self._is_valid(ledger, other, now_s):
                raise LbdError(
                    f"host {other} has already joined and its certificate is valid: give this host "
                    "another name (--name), or create a token to replace it: `lbctl token create "
                    f"{other}`"
                )
        if not ledger.is_settled(host):  # it may have a valid certificate that is not on record
            ledger = ledger.without(host)
        before = ledger.hosts.get(host)
        issue = before.issue + before.revoked if before is not None else 0
        return self._sign(ledger, host, issue, request, now_s)

    def renew(self, host: str, issue: int, request: bytes, now_s: float) -> bytes:
        """Renews for a host that has shown a valid certificate of that issue."""
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

    def revoke(self, host: str) -> bytes:
        """Revokes a host and the tokens that it may have. Returns the new signed list."""
        with self._locked() as ledger:
            known, is_settled = ledger.hosts.get(host), ledger.is_settled(host)
            if not is_settled:
                check_name(host)
            elif known is None:
                held = [name for name, one in ledger.hosts.items() if not one.revoked]
                names = ", ".join(sorted(held))
                raise ConfigError(f"host {host!r} has no certificate; hosts with one: {names}")
            if host == ledger.home:
                raise ConfigError(f"the authority is on {host}, so it cannot be revoked")
            if is_settled and known is not None and known.revoked:
                raise ConfigError(f"{host} is already revoked")
            void = ledger.tokens_of(host)
            kept = tuple(token for token in ledger.tokens if token not in void)
            self._save(replace(ledger.without(host), tokens=kept))
        return self.signed_list()

    def signed_list(self) -> bytes:
        """Returns the signed list of revoked hosts, as it is sent."""
        return sign(self.credentials(), self.ledger().revocations())

    def change(self, how: Callable[[Ledger], Ledger]) -> None:
        """Raises what `how` raises, and ConfigError."""
        with self._locked() as ledger:
            self._save(how(ledger))

    @contextmanager
    def given_away(self) -> Iterator[None]:
        """Wraps the making of a copy: nobody changes the authority meanwhile, and afterwards it is
        deleted here. Raises ConfigError."""
        with self._locked():
            yield
            try:
                for file in (self.key_file, self.ledger_file):
                    file.unlink()
            except OSError as problem:
                raise ConfigError(f"{self.root}: {problem.strerror}") from problem

    # -- tokens ----------------------------------------------------------------------------------

    def new_token(self, host: str, life_s: float, now_s: float, uses: int = 1) -> Token:
        """`host`: the only one that may use it; "": any, `uses` of them. Raises LbdError."""
        if host:
            check_name(host)
        if not 1 <= uses <= USES_MAX:
            raise ConfigError(f"a token can be for 1 to {USES_MAX} hosts")
        if host and uses > 1:
            raise ConfigError(f"a token for {host} is for one host: leave out --uses or {host}")
        if not 1.0 <= life_s <= TOKEN_LIFE_MAX_S:
            raise ConfigError("a token's lifetime must be 1 second to 30 days")
        fingerprint = certificates.fingerprint(self.certificate)
        token = Token(secrets.token_bytes(SECRET_BYTES), fingerprint)
        with self._locked() as ledger:
            kept = [t for t in ledger.tokens if now_s < t.until_s + TOKEN_KEPT_S]
            if len(kept) >= TOKENS_MAX:
                raise LbdError(f"there are {TOKENS_MAX} tokens; first `lbctl token revoke` some")
            anchor = certificates.anchor_of(token, now_s).decode()
            record = TokenRecord(token.id, anchor, now_s + life_s, host, uses_left=uses)
            self._save(replace(ledger, tokens=(*kept, record)))
        return token

    def revoke_token(self, number: str) -> None:
        with self._locked() as ledger:
            if ledger.token(number) is None:
                raise ConfigError(f"no token {number!r}; see `lbctl token list`")
            kept = tuple(token for token in ledger.tokens if token.id != number)
            self._save(replace(ledger, tokens=kept))


@contextmanager
def opened_root(root: Path) -> Iterator[int]:
    """Raises ConfigError, also for errors inside the context."""
    try:
        with opened(root) as directory:
            if os.fstat(directory).st_uid != 0:
                raise ConfigError(f"{root} is not owned by root: chown root it")
            yield directory
    except OSError as problem:
        raise ConfigError(f"{root}: {problem.strerror}") from problem


def give_ledger(directory: int, group: int) -> None:
    """Grants read access and nothing else. Raises OSError, ConfigError."""
    os.fchown(directory, 0, group)
    os.fchmod(directory, DIRECTORY_MODE)
    for name, mode in (("authority.pem", KEY_MODE), ("ledger.json", LEDGER_MODE)):
        with opened_file(Path(name), directory) as file:
            os.fchown(file, 0, group)
            os.fchmod(file, mode)


@contextmanager
def opened_file(path: Path, at: int | None = None) -> Iterator[int]:
    """Opens a regular file that is no link and has no other name. Raises OSError or ConfigError."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK
    file = os.open(path, flags, dir_fd=at)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            raise ConfigError(f"{path} was not made by `lbctl init`")
        yield file
    finally:
        os.close(file)


def check_name(host: str) -> None:
    """Raises ConfigError if no certificate can be made for it."""
    if fault := why_not(host):
        raise ConfigError(f"host name {host[:NAME_SHOWN]!r} {fault}; give another with --name")


def usable_token(ledger: Ledger, number: str, host: str, now_s: float) -> TokenRecord:
    """Raises LbdError if `host` may not join with it."""
    token = ledger.token(number)
    if token is None:
        raise LbdError(f"token {number} is unknown here")
    if token.uses_left < 1:
        raise LbdError(f"token {number} has already been used, by {token.used_by[-1]}")
    if now_s > token.until_s:
        raise LbdError(f"token {number} expired {now_s - token.until_s:.0f} s ago")
    if token.host and token.host != host:
        raise LbdError(f"token {number} is for {token.host}, not for {host}")
    return token


def is_superseded(authority: Authority, signed: bytes) -> bool:
    """Returns whether a newer copy of this authority, on another machine, has signed that list of
    revocations. Raises ConfigError."""
    try:
        said = revocations_in(signed)
        if said.number <= authority.ledger().number:
            return False
        verified(signed, authority.certificate)
    except PeerError:
        return False
    return True


def heard(files: HostFiles, certificate: bytes) -> Revocations:
    """Returns all revocations that a host has heard of. Its daemons may write those files. Raises
    PeerError unless the authority with that certificate has signed them."""
    newest, *before = [
        verified(one, certificate)
        for one in (files.read_signed(), *files.read_signed_before())
        if one
    ] or [EMPTY]
    return newest.and_earlier(before)


def sign(authority: Credentials, revocations: Revocations) -> bytes:
    """Returns the list as it is sent and stored: a line with the signature, then the text."""
    text = revocations.text().encode()
    return certificates.sign_text(authority, text) + b"\n" + text


def verified(signed: bytes, authority: bytes) -> Revocations:
    """Raises PeerError unless this authority has signed it."""
    signature, _, text = signed.partition(b"\n")
    if not certificates.is_text_signed_by(text, signature, authority):
        raise PeerError("a list of revoked hosts not signed by the authority")
    return parse(text.decode("utf-8", "replace"))
