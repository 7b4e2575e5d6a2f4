"""`lbctl bundle`: what somebody who helps needs to know about this host, without its secrets.

Whatever cannot be read is left out and noted, because a host that needs help may lack anything.
"""

import argparse
import contextlib
import importlib.metadata
import io
import json
import os
import platform
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import lbd
from lbd.cli.ctl.config import in_force
from lbd.cli.ctl.own_config import is_labs, text_of
from lbd.cli.ctl.verb import Verb, reading
from lbd.cli.program import Parser
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.output import finite, print_json, put
from lbd.console.reply import Json, tables, text
from lbd.doctor.findings import checks
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.process.whole_file import write_whole
from lbd.text.secrets import secret_values, without_secrets

FOLDER = "lbd-bundle"
MODE = 0o600
LOG_BYTES_MAX = 256 << 10  # the end of each log
PART_BYTES_MAX = 4 << 20
JOURNAL_LINES = "2000"
JOURNAL_S = 10.0
UNITS = ("lim", "lbm", "keeper", "dispatcher", "authority", "metrics", "web")
LIBRARIES = ("grpcio", "protobuf", "psutil", "uvloop", "cryptography", "tomlkit", "jinja2",
             "starlette", "uvicorn", "psycopg")  # fmt: skip
QUESTIONS: dict[str, Json] = {
    "status": {"op": "status"}, "peers": {"op": "peers"},
    "counters": {"op": "counters"}, "drains": {"op": "drains"},
}  # fmt: skip


class NothingLogged(Exception):
    """A program's log is empty, and we may read all there is."""


@dataclass(slots=True)
class Parts:
    """Texts by name, and what was left out. Every text is added here, which removes secrets."""

    known_secrets: list[str]
    texts: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)  # programs that have logged nothing

    def add(self, name: str, make: Callable[[], str]) -> None:
        try:
            made = make()
        except (LbdError, OSError, ValueError, subprocess.SubprocessError) as problem:
            self.left_out.append(without_secrets(f"{name}: {problem}", self.known_secrets))
            return
        if len(made) > PART_BYTES_MAX:
            self.left_out.append(f"{name}: only its last {PART_BYTES_MAX} characters are included")
            made = made[-PART_BYTES_MAX:]
        self.texts[name] = without_secrets(made, self.known_secrets)

    def add_log(self, program: str, read: Callable[[], str]) -> None:
        try:
            self.add(f"logs/{program}.log", read)
        except NothingLogged:
            self.silent.append(program)


def bundle(daemons: Daemons, options: argparse.Namespace) -> int:
    config = daemons.config
    parts = Parts(secret_values(os.environ.items()))
    parts.add("versions.json", lambda: as_json(versions(daemons)))
    parts.add("config.json", lambda: as_json([one.json() for one in in_force(config)]))
    parts.add("lbd.toml", lambda: text_of(Path(config.path)) if config.path else "")
    parts.add("doctor.json", lambda: as_json([asdict(check) for check in checks(config)]))
    for name, question in QUESTIONS.items():
        parts.add(f"{name}.json", lambda asked=question: as_json(daemons.lim(asked)))  # type: ignore[misc]
    for name, read in logs(config):
        parts.add_log(name, read)
    quiet = f"no log of {', '.join(parts.silent)}: they have logged nothing here"
    left_out = [*parts.left_out, *([quiet] if parts.silent else [])]
    parts.texts["left-out.txt"] = "".join(f"{line}\n" for line in left_out)
    try:
        write_whole(Path(options.file), packed(parts.texts), MODE)
    except OSError as problem:
        raise ConfigError(f"{options.file}: {problem.strerror}") from None
    if options.json:
        print_json({"file": options.file, "parts": list(parts.texts), "left_out": parts.left_out})
        return 0
    missing = (
        f"; {len(parts.left_out)} could not be collected (left-out.txt)" if parts.left_out else ""
    )
    put(f"{options.file}: {len(parts.texts)} parts{missing}; review it before you send it")
    return 0


def as_json(value: object) -> str:
    return json.dumps(finite(value), indent=1, default=str)


def packed(texts: dict[str, str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in texts.items():
            data = content.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode, entry.mtime = len(data), MODE, int(time.time())
            tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def versions(daemons: Daemons) -> Json:
    try:
        status = daemons.lim({"op": "status"})
        hosts = {text(row, "name"): text(row, "version") for row in tables(status, "hosts")}
    except LbdError:
        hosts = {}
    return {
        "lbd": lbd.__version__,
        "host": daemons.config.host.name,
        "hosts": hosts,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "system": system(),
        "libraries": {name: version_of(name) for name in LIBRARIES},
    }


def system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def version_of(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def logs(config: Config) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields the daemons' logs: the files of a lab, or else the journal."""
    if config.path and is_labs(Path(config.path)):
        for name in UNITS:
            path = Path(config.host.runtime_dir, f"{name}.log")
            if path.exists():
                yield name, lambda path=path: end_of(path)  # type: ignore[misc]
        return
    for name in UNITS:
        yield name, lambda name=name: journal(f"lbd-{name}", config)  # type: ignore[misc]
    yield "up", lambda: journal("lbd-up", config)


def end_of(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_BYTES_MAX))
        return file.read(LOG_BYTES_MAX).decode("utf-8", "replace")


def journal(identifier: str, config: Config) -> str:
    """Returns a program's log: lines on stderr carry the unit's name, other fields our own. Lines
    of other users are left out, because any user can write under that name (`logger -t`)."""
    words = ("journalctl", "--quiet", "--no-pager", "-n", JOURNAL_LINES, "-o", "short-iso")
    users = {0}
    with contextlib.suppress(OSError):
        users.add(os.stat(config.host.state_dir).st_uid)
    ours = (f"SYSLOG_IDENTIFIER={identifier}", *(f"_UID={uid}" for uid in sorted(users)))
    one = (f"_SYSTEMD_UNIT={identifier}.service", "+", *ours)
    try:
        done = subprocess.run([*words, *one], capture_output=True, timeout=JOURNAL_S, check=False)
    except FileNotFoundError:
        raise Unavailable("no journalctl here; see where your init system keeps logs") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise Unavailable(said or f"journalctl ended with {done.returncode}")
    if not done.stdout and os.geteuid() == 0:
        raise NothingLogged
    if not done.stdout:
        raise Unavailable("the journal has no entries for it, or you may not read them")
    return done.stdout[-LOG_BYTES_MAX:].decode("utf-8", "replace")


def add_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a .tar.gz, readable by its owner only")


EXAMPLES = ("lbctl bundle lbd-bundle.tar.gz        review it before you send it",)
VERBS = {"bundle": Verb(reading(bundle), add_options, EXAMPLES)}
