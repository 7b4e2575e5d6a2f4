"""What `lbrun` asked of its LBM: a RUN frame, read. Pure."""

from dataclasses import dataclass, field

from lbd.lbm.modes import Attributes, Size, read_modes, read_size
from lbd.model import HostId
from lbd.one_line import one_line
from lbd.rpc import client_tags as tags
from lbd.rpc import frames

ALL_SIGNALS = (1 << 64) - 1
NAME_CHARS_MAX = 255
EXCLUDED_MAX = 1024
FLAGS_MAX = 256
WORDS_MAX = 1 << 18  # arguments and variables: as many as there can be with a stack of 8 MiB
TIMEOUT_S_MAX = 1e9
MEMORY_BYTES_MAX = 1 << 62
CPU_S_MAX = 1e8  # what one run may claim; a sum of such stays a number
DEPTH_MAX = SLOTS_MAX = 1 << 16


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
    slots: tuple[int, int] = (1, 1)  # it needs, and can use
    closed_fds: int = 0
    null_outputs: int = 0
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
    for key, value in frames.fields(body, WORDS_MAX):
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
            request.excluded.add(host_name(value))
        else:
            _read_single(request, key, value)
    if not request.argv:
        raise ValueError("no command")
    if b"\0" in b"".join((*request.argv, *request.environment, request.directory)):
        raise ValueError("a zero byte in a word")
    if len(request.excluded) > EXCLUDED_MAX:
        raise ValueError(f"more than {EXCLUDED_MAX} hosts excluded")
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
        request.host = host_name(value)
    elif key == tags.FLAGS:
        request.flags += value
        if len(request.flags) > FLAGS_MAX:
            raise ValueError("more flags than there are")
    elif key == tags.TIMEOUT:
        request.timeout_s = within(float(value), TIMEOUT_S_MAX)
    elif key == tags.MEMORY:
        request.memory_bytes = int(within(int(value), MEMORY_BYTES_MAX))
    elif key == tags.NAME:
        request.name = one_line(value.decode(errors="replace"), NAME_CHARS_MAX)
    elif key == tags.SLOTS:
        request.slots = read_slots(value)
    elif key == tags.CLOSED_FDS:
        request.closed_fds = int(value) & 7
    elif key == tags.NULL_OUTPUTS:
        request.null_outputs = int(value) & 6
    elif key == tags.IGNORED:
        request.ignored_signals = int(value) & ALL_SIGNALS
    elif key == tags.DEPTH:
        request.depth = int(within(int(value), DEPTH_MAX))
    elif key == tags.TERMINAL:
        request.terminal = read_size(value)
    elif key == tags.MODES:
        request.modes = read_modes(value)


def host_name(value: bytes) -> HostId:
    text = value.decode()
    if len(text) > NAME_CHARS_MAX or not text.isprintable():
        raise ValueError("not the name of a host")
    return HostId(text)


def read_slots(value: bytes) -> tuple[int, int]:
    least, _, most = value.partition(b"-")
    found = int(least), int(most)
    if not 1 <= found[0] <= found[1] <= SLOTS_MAX:
        raise ValueError("slots that cannot be")
    return found


def within(value: float, high: float) -> float:
    if not 0 <= value <= high:  # nor NaN
        raise ValueError(f"{value} is out of range")
    return value


def read_used(body: bytes) -> tuple[float, int]:
    """CPU seconds and exit status of a USED frame. Raises ValueError."""
    found = dict(frames.fields(body))
    status = int(found.get(tags.STATUS, b""))
    if not 0 <= status <= 255:
        raise ValueError(f"exit status {status}")
    return within(float(found.get(tags.CPU, b"")), CPU_S_MAX), status
