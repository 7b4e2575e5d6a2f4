"""Puts a host's trust files in place: the certificate last, since it marks that the host has
joined."""

from dataclasses import replace

from lbd.trust import certificates
from lbd.trust.authority import Authority
from lbd.trust.files import Credentials, HostFiles, make_private_dir, write_private


def enrol(authority: Authority, files: HostFiles, host: str, target: str, now_s: float) -> None:
    """Enrols a host whose files and authority are both local.

    `target`: the LIM of the authority's host.
    """
    key = certificates.new_key()
    chain = authority.admit(host, certificates.new_request(key, host), now_s)
    ledger = authority.ledger()
    install(files, Credentials(key, chain), authority.certificate, ledger.home, target, b"")


def install(
    files: HostFiles,
    credentials: Credentials,
    authority: bytes,
    home: str,
    target: str,
    revocations: bytes,
) -> None:
    """`home`, `target`: the authority's host, and its LIM."""
    make_private_dir(files.root)
    if files.authority.exists() and files.read_authority() != authority:
        for earlier in (files.revoked, files.revoked_before):  # of another cluster
            earlier.unlink(missing_ok=True)
    write_private(files.authority, authority)
    write_private(files.home, f"{home} {target}\n".encode())
    if revocations:
        files.write_signed(revocations)
    files.write_credentials(credentials)


def follow_address(authority: Authority, files: HostFiles, home: str, target: str) -> None:
    """Records a new address of the authority's host, where the others must renew their
    certificates. Its LIM sends them what is written here."""
    known_home, known = files.read_home()
    if known_home != home or known == target or not authority.has_key:
        return
    authority.change(lambda ledger: replace(ledger, target=target, number=ledger.number + 1))
    write_private(files.home, f"{home} {target}\n".encode())
    files.write_signed(authority.signed_list())
