"""What `lbrun` asked of its LBM: a RUN frame, read. Pure."""

from dataclasses import dataclass, field

from lbd.lbm.modes import Attributes, Size, read_modes, read_size
from lbd.model import HostId
from lbd.rpc import client_tags as tags
from lbd.rpc import frames

ALL_SIGNALS = (1 << 64) - 1


@dataclass(slots=True)
class ClientRequest:
    """One command of a local user. Byte strings are as the kernel gave them."""

    argv: list[bytes] = field(default_factory=list)
    environment: list[bytes] = field(default_factory=list)
    directory: bytes = b"/"
    umask: int = 0o022
    mode: str = "auto"  # auto | remote | host
    host: HostId | None = None
    send: list[bytes] = field(default_factory=list)
    fetch: list[bytes] = field(default_factory=list)
    let_through: set[bytes] = field(default_factory=set)  # variables, whatever is denied
    excluded: set[HostId] = field(default_factory=set)
    flags: bytes = b""
    timeout_s: float = 0.0
    memory_bytes: int = 0
    name: str = ""
    closed_fds: int = 0
    depth: int = 0
    ignored_signals: int = 0
    terminal: Size | None = None  # wanted, and this large
    modes: Attributes | None = None  # of the caller's terminal

    @property
    def is_staged(self) -> bool:
        """Does it bring its files along?"""
        return bool(self.send or self.fetch)

    def has(self, flag: bytes) -> bool:
        return flag in self.flags


def read_request(body: bytes) -> ClientRequest:
    """Raises ValueError on a malformed field; unknown keys are passed over."""
    request = ClientRequest()
    for key, value in frames.fields(body):
        if key == tags.ARGUMENT:
            request.argv.append(value)
        elif key == tags.ENVIRONMENT:
            request.environment.append(value)
        elif key == tags.SEND:
            request.send.append(value)
        elif key == tags.FETCH:
            request.fetch.append(value)
        elif key == tags.LET_THROUGH:
            request.let_through.add(value)
        elif key == tags.EXCLUDED:
            request.excluded.add(HostId(value.decode()))
        else:
            _read_single(request, key, value)
    if not request.argv:
        raise ValueError("no command")
    if request.mode not in ("auto", "remote", "host"):
        raise ValueError(f"mode {request.mode!r}")
    return request


def _read_single(request: ClientRequest, key: bytes, value: bytes) -> None:
    if key == tags.DIRECTORY:
        request.directory = value
    elif key == tags.UMASK:
        request.umask = int(value) & 0o777
    elif key == tags.MODE:
        request.mode = value.decode()
    elif key == tags.HOST:
        request.host = HostId(value.decode())
    elif key == tags.FLAGS:
        request.flags = value
    elif key == tags.TIMEOUT:
        request.timeout_s = float(value)
    elif key == tags.MEMORY:
        request.memory_bytes = int(value)
    elif key == tags.NAME:
        request.name = value.decode(errors="replace")
    elif key == tags.CLOSED_FDS:
        request.closed_fds = int(value) & 7
    elif key == tags.IGNORED:
        request.ignored_signals = int(value) & ALL_SIGNALS
    elif key == tags.DEPTH:
        request.depth = max(0, int(value))
    elif key == tags.TERMINAL:
        request.terminal = read_size(value)
    elif key == tags.MODES:
        request.modes = read_modes(value)


def read_used(body: bytes) -> tuple[float, int]:
    """CPU seconds and exit status of a USED frame. Raises ValueError."""
    found = dict(frames.fields(body))
    status = int(found.get(tags.STATUS, b""))
    if not 0 <= status <= 255:
        raise ValueError(f"exit status {status}")
    return float(found.get(tags.CPU, b"")), status
