"""All that an LBM leaves for the next one of its host, as plain records.

codec.py writes and reads them, and says how they may change from one release to the next. Times are
seconds of the clocks of their holders, which run on meanwhile.
"""

from dataclasses import dataclass, field

from lbd.lbm.core.execution import Execution
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey import Journey
from lbd.lbm.core.pauses import Pauses
from lbd.lbm.core.slots import NOTHING, Grant
from lbd.lbm.handover.codec import NO_FD, Fd
from lbd.lbm.link.user_threads import StdFds
from lbd.model import JobId

# -- bytes on their way ----------------------------------------------------------------------------


@dataclass(slots=True)
class SourceState:
    """The reading end of one direction of one command."""

    window_bytes: int
    number: int = 0  # 1 or 2, for outputs
    descriptor: Fd = NO_FD  # none: its end was reached
    under_way_bytes: int = 0
    read_bytes: int = 0
    last_chance: bool = False  # nobody writes any more
    errno: int = 0  # why not everything was read


@dataclass(slots=True)
class SinkState:
    """The writing end of one direction."""

    number: int = 0
    descriptor: Fd = NO_FD  # none: nobody reads any more, or its end was passed on
    queue: tuple[bytes, ...] = ()  # not written yet
    ended: bool = False  # the end of file has come
    written_bytes: int = 0
    unreported_bytes: int = 0
    reported_bytes: int = 0
    errno: int = 0  # why not everything was written
    is_read: bool = True
    taken_bytes: int | None = None  # what its reader had read by then, if known
    window_bytes: int = 0  # granted


@dataclass(slots=True)
class StreamState:
    """A stream between two LBMs, at rest."""

    token: str  # the name that both sides use
    sent: int = 0  # messages
    received: int = 0
    unsent: tuple[bytes, ...] = ()
    unread: tuple[bytes, ...] = ()  # as they arrived


@dataclass(slots=True)
class LinkTo:
    """A stream to another host."""

    host: str
    address: str
    stream: StreamState
    last_number: int = 0  # of a conversation
    open_numbers: tuple[int, ...] = ()


@dataclass(slots=True)
class WorkdirHeld:
    """A workdir, held by the conversation of that number."""

    number: int
    id: str
    origin: str
    user: str
    path: bytes


@dataclass(slots=True)
class LinkFrom:
    """A stream from another host."""

    caller: str  # the host, "" = any
    stream: StreamState  # its unread messages begin with the requests that wait for a slot
    last_number: int = 0
    claims: tuple[JobId, ...] = ()  # jobs that were admitted
    workdirs: tuple[WorkdirHeld, ...] = ()


# -- commands that run here ------------------------------------------------------------------------


@dataclass(slots=True)
class Running:
    """A command that runs here, attached or queued."""

    execution: Execution
    job: Job | None = None  # None once it has ended
    width: int = 1  # slots that it holds
    grant: Grant = NOTHING  # and resources


@dataclass(slots=True)
class PtyState:
    master: Fd
    device: int  # of the command's side
    given: bytes  # the modes that we have set
    last_typed: bytes = b"\n"


@dataclass(slots=True)
class StdioState:
    """Our ends of a command's standard input and outputs."""

    stdin: SinkState | None = None
    outputs: tuple[SourceState, ...] = ()
    pty: PtyState | None = None
    is_screen: bool = False  # it prints raw output: \n is no longer the end of a line
    is_behind: bool = False  # the caller is in the background: watch whether input is wanted
    was_heard: bool = False  # input has come for it
    pipe: tuple[int, int] | None = None  # of the input: device and inode


@dataclass(slots=True)
class Attached:
    """A command of another host's user."""

    running: Running
    request: bytes  # RunRequest
    note: str = ""
    number: int = 0  # of its conversation
    link: tuple[str, str] | None = None  # caller and token; None: nobody waits for it
    stdio: StdioState | None = None


@dataclass(slots=True)
class QueuedAttempt:
    running: Running
    start: bytes  # Start of dispatch.proto
    report: bytes | None = None  # AttemptReport of its end, which is not settled yet
    workdir: bytes = b""  # its directory, if it has brought files along
    has_stopped: bool = False
    was_shown: bool = False  # its output was shown to somebody
    files_s: float = 0.0  # how long its files took to transfer
    ledger_token: bytes = b""  # of the dispatcher that started it


# -- commands of this host's users elsewhere -------------------------------------------------------


@dataclass(slots=True)
class FarRun:
    """A command on another host, or its workdir there."""

    host: str
    address: str
    token: str = ""  # of the stream
    number: int = 0  # of the conversation
    has_terminal: bool = False
    is_following: bool = False  # the caller's descriptors are in use
    stdin: SourceState | None = None
    outputs: tuple[SinkState, ...] = ()
    input_file: Fd = NO_FD  # the caller's input, to which unread bytes may be returned
    typed_bytes: int = 0  # typed at the caller's terminal, and not acknowledged
    has_printed: bool = False
    asked_to_end: bool = False
    has_exited: bool = False
    ended: bytes | None = None  # Ended, if it has come and not all output is written
    end_within_s: float | None = None  # in which its end must be reported, if it must
    end_why: str = ""  # what is said of a host that does not


@dataclass(slots=True)
class Outbound:
    """A command on its way out, or one that stays."""

    journey: Journey
    job: Job
    pauses: Pauses | None = None  # as the request asks for, and nothing said yet
    withheld: str = ""  # variables withheld from its environment, for -v
    run: FarRun | None = None
    workdir: FarRun | None = None


@dataclass(slots=True)
class CallerState:
    """The descriptors of a caller."""

    asked: bool = False
    came: StdFds | None = None  # not taken by anybody yet
    is_ready: bool = False
    terminal: Fd = NO_FD
    modes: bytes = b""  # to be restored; empty: it must not be raw


@dataclass(slots=True)
class ClientState:
    """A connection to lbm.sock."""

    socket: Fd
    received: bytes = b""  # frames to be read again, and the beginning of the next
    descriptors: tuple[Fd, ...] = ()  # received and not taken
    request: bytes = b""  # RUN, of a command that has left or stays
    command: Outbound | None = None
    caller: CallerState = field(default_factory=CallerState)
    process: Fd = NO_FD  # the client's pidfd
    stays: bool = False  # the client has become the command


def shown_id(left: Running) -> str:
    """The job's id as people know it, if that is known."""
    return (left.job.queued_as if left.job is not None else "") or left.execution.spec.id
