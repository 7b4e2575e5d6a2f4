"""Logs fields to systemd's journal if stderr is the journal, else plain lines.

That allows `journalctl LBD_HOST=h2 PRIORITY=4`. The protocol (systemd's "Native Journal Protocol")
is a datagram of NAME=value lines to one socket, so it needs no library. A record's further fields
come from `extra={…}`: names and numbers, never anything from a command's environment.
"""

import logging
import os
import socket
import struct
import sys

from lbd.process.job_log import text_of
from lbd.text.one_line import one_line, printable

SOCKET = "/run/systemd/journal/socket"
PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
ERROR = 3
MESSAGE_MAX_BYTES = 32 << 10
LINE_CHARS_MAX = 8000
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def is_journal(descriptor: int = 2) -> bool:
    """Returns whether the descriptor is the journal: $JOURNAL_STREAM names its device and inode."""
    stated = os.environ.get("JOURNAL_STREAM", "")
    if not stated:
        return False
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return stated == f"{found.st_dev}:{found.st_ino}"


def set_up_log(program: str, host: str) -> None:
    """Logs each record as a line on stderr after the program's name, or as journal fields."""
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(OneLine(f"{program}: %(message)s"))
    handler = JournalHandler(program, host, lines) if is_journal() else lines
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)


class OneLine(logging.Formatter):
    """Formats a record as one printable line, whatever names jobs, users and hosts have. A
    traceback follows in the same line."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record), LINE_CHARS_MAX)

    def formatMessage(self, record: logging.LogRecord) -> str:  # a name given by logging
        record.message = text_of(record)
        return super().formatMessage(record)


class JournalHandler(logging.Handler):
    """Logs to the journal's socket; what the socket does not take goes to stderr as a line."""

    def __init__(
        self, program: str, host: str, otherwise: logging.Handler, path: str = SOCKET
    ) -> None:
        super().__init__()
        self._said_by = {"SYSLOG_IDENTIFIER": program.replace(" ", "-"), "LBD_HOST": host}
        self._otherwise = otherwise
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # a full log must not block the event loop

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._socket.sendto(packed(self._said_by | fields(record)), self._path)
        except OSError:
            self._otherwise.emit(record)

    def close(self) -> None:
        self._socket.close()
        super().close()


def fields(record: logging.LogRecord) -> dict[str, str]:
    """Returns a record's journal fields: its text, its place in the code, and its `extra`."""
    found = {
        "MESSAGE": one_line(text_of(record), LINE_CHARS_MAX),
        "PRIORITY": str(PRIORITIES.get(record.levelname, 6)),
        "LOGGER": record.name,
        "CODE_FILE": record.pathname,
        "CODE_LINE": str(record.lineno),
        "CODE_FUNC": record.funcName or "",
    }
    if record.exc_info:
        lines = logging.Formatter().formatException(record.exc_info).splitlines()
        found["EXCEPTION"] = "\n".join(map(printable, lines))
    for name, value in vars(record).items():
        if name not in STANDARD and value:
            found[f"LBD_{name.upper()}"] = one_line(str(value), LINE_CHARS_MAX)
    return found


def packed(given: dict[str, str]) -> bytes:
    """Encodes fields as NAME=value, or with a length if the value has several lines."""
    parts = []
    for name, text in given.items():
        value = text.encode(errors="replace")[:MESSAGE_MAX_BYTES]
        if b"\n" in value:
            parts.append(name.encode() + b"\n" + struct.pack("<Q", len(value)) + value + b"\n")
        else:
            parts.append(name.encode() + b"=" + value + b"\n")
    return b"".join(parts)
