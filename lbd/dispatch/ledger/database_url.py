"""Where the ledger is, and whether the traffic to PostgreSQL is protected: it carries commands and
environments.

By itself the driver continues unencrypted if the server offers no TLS, and accepts any certificate.
For other machines we demand TLS and check the server's certificate, unless the URL says otherwise.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from lbd.config.schema import Config
from lbd.process.written_disks import sqlite_file

VERIFIED = "verify-full"
SAFE = ("verify-ca", VERIFIED)


def store_url(store: str, state_dir: str) -> str:
    """Returns where the ledger is: `dispatch.store`, or a file in the state directory."""
    return store or f"sqlite://{state_dir}/ledger.sqlite"


def ledger_file(config: Config) -> Path | None:
    """Returns None if the ledger is a database."""
    return sqlite_file(store_url(config.dispatch.store, config.host.state_dir))


def hosts_of(url: str, environment: Mapping[str, str]) -> list[str]:
    """Returns the hosts as the driver reads them; [""]: this machine's socket. Raises
    ValueError."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    if query.get("service") or "PGSERVICE" in environment:
        return ["service"]  # a name defined in another file
    before, at, after = parts.netloc.partition("@")
    given = unquote(after if at else before) or query.get("host", [""])[-1]
    names = (given or environment.get("PGHOST", "")).split(",")
    return [name if name.startswith("/") else without_port(name) for name in names]


def without_port(name: str) -> str:
    if name.startswith("["):
        return name[1:].partition("]")[0]
    host, colon, port = name.rpartition(":")
    return host if colon and ":" not in host and port.isdecimal() else name


def is_here(host: str) -> bool:
    if host in ("", "localhost") or host.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def mode_in_force(url: str, environment: Mapping[str, str]) -> str:
    """Returns the driver's `ssl`; "": the driver's default, since everything stays on this
    machine."""
    if written := parse_qs(urlsplit(url).query).get("sslmode"):
        return written[-1]
    return "" if all(map(is_here, hosts_of(url, environment))) else VERIFIED


def exposed(url: str, environment: Mapping[str, str]) -> str:
    """Returns a warning about an unprotected connection, or ""."""
    try:
        mode = mode_in_force(url, environment)
        away = [host for host in hosts_of(url, environment) if not is_here(host)]
    except ValueError:
        return ""  # not a URL: reported elsewhere
    if not away or mode in SAFE:
        return ""
    how = "unencrypted" if mode == "disable" else "to a server whose identity is not checked"
    return f"commands and environments go to {', '.join(away)} {how} (sslmode={mode})"


def about_password(url: str, environment: Mapping[str, str]) -> str:
    """Says where the driver got the password, or why it got none from its password file."""
    if urlsplit(url).password:
        return "the password is the one in dispatch.store"
    if environment.get("PGPASSWORD"):
        return "the password is the one in PGPASSWORD"
    path = environment.get("PGPASSFILE") or os.path.expanduser("~/.pgpass")
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
    except OSError as problem:
        return f"{path}: {problem.strerror}"
    if mode & 0o077:
        return f"{path} is ignored because others can read it: chmod 600 it"
    return f"the password is the one in {path}, if that has a line for this server"
