"""What happens to a command on its way out, and what it wants done: the two sides of
`journey.Journey.handle`. Plain values, so that they can be kept and replayed.

An action that says "answered by" is the last of its list; its answer is the next event of that
kind. The others are done at once.

One file because it is one vocabulary: most of it is one small record after the other.
"""

from collections.abc import Mapping
from errno import EACCES, ENOENT

from lbd.lbm.core.slots import NOTHING, Grant
from lbd.model import HostId, JobState, Verdict, quick_value
from lbd.text.one_line import one_line

LBRUN_FAILED = 125  # it never began, or its end is not known
CANNOT_EXECUTE, NOT_FOUND = 126, 127
BY_SIGNAL = 128  # and more, by the number
NOT_SHARED = ("chdir", "directory")  # phases: the directory is not there, or is another one
TAKE_ALONG = "--send and --fetch take files along"
LACKING = (*NOT_SHARED, "exec")  # and of a host that simply does not have what is needed

Slots = Mapping[HostId, tuple[int, int]]  # of each host that is up: all, and those free


@quick_value
class CommandEnd:
    """As its `lbrun` hears of it."""

    status: int
    cause: str
    host: str = ""
    reason: str = ""
    signal: int = 0  # its number
    cpu_s: float = 0.0
    attempt: int = 1  # of a job of the queue
    heard_signals: int | None = None  # by the command, bit N for signal N; None: nobody knows


def status_of_refusal(phase: str, errno: int) -> int:
    """`phase`: where the start failed."""
    if phase != "exec":
        return LBRUN_FAILED
    return NOT_FOUND if errno == ENOENT else CANNOT_EXECUTE


def why_ended(
    cause: str, reason: str, host: HostId, timeout_s: float = 0.0, memory_bytes: int = 0
) -> str:
    """Otherwise than by itself; "" if it did not. `reason`: as that host says, if it does."""
    if cause == "timeout":
        return f"ended at its time limit of {timeout_s:g} s"
    if cause == "evicted":
        return f"ended because the owner of {host} is back"
    if reason := one_line(reason):
        return f"{host}: {reason}"
    if cause == "memory":
        return f"over its memory limit of {memory_bytes} bytes"
    return ""


@quick_value
class Question:
    """What the LIM needs to know to place a command, beside whose it is and what it will cost."""

    wanted: HostId | None
    excluded: frozenset[HostId]
    must_leave: bool
    must_stay: bool
    may_wait: bool


# -- events ----------------------------------------------------------------------------------------


@quick_value
class Judged:
    """What lists, tables and experience say of it: the first event."""

    leaves: bool
    reason: str = ""
    measure: bool = False  # if it stays


@quick_value
class Looked:
    """Which hosts lack its directory or its program, as they said lately, and where the LBM of the
    host is that the user named; "" = the LIM has to say."""

    lacking: frozenset[HostId] = frozenset()
    left_out: str = ""  # the same for people
    address: str = ""


@quick_value
class SlotsKnown:
    slots: Slots


@quick_value
class LimSaid:
    verdict: Verdict
    host: HostId
    address: str = ""
    reason: str = ""
    phrase: str = ""  # the reason with its numbers, if it is to be shown


@quick_value
class LimRefused:
    """No host can take it, or the question makes no sense."""

    reason: str


@quick_value
class LimSilent:
    """It did not answer in time, or lately. `address`: as in Looked, by what it said last."""

    reason: str
    address: str = ""


@quick_value
class Waited:
    """There may be room: a job has ended, or the time is up."""


@quick_value
class TurnTaken:
    """`granted`: it counts among those that run here because a host failed."""

    granted: bool


@quick_value
class NeedsTaken:
    """The resources of this host. `grant` None: it did not get them."""

    grant: Grant | None
    why: str = ""
    later: bool = False  # others have them


@quick_value
class Sent:
    """The request is on its way to the host: from now on it may run there."""


@quick_value
class Unseen:
    """Its directory cannot be looked at here, so no host can be asked for the same one."""

    reason: str


@quick_value
class StartedThere:
    note: str = ""  # for -v
    no_less_busy: bool = False  # that host was, than ours: a wrong transfer


@quick_value
class Refused:
    """The host did not run it. `fault`: it could not be used, rather than declined."""

    reason: str
    phase: str = ""  # where the start failed
    errno: int = 0
    fault: bool = False
    full: bool = False  # all its slots were taken just now

    @property
    def lacks_something(self) -> bool:
        """The host does not have what is needed, so it was no candidate."""
        return self.phase in LACKING

    @property
    def status(self) -> int:
        """Of a command that could run there only."""
        return status_of_refusal(self.phase, self.errno)

    @property
    def advice(self) -> str:
        """`reason`, and what to do about it."""
        is_missing = self.phase in NOT_SHARED and self.errno != EACCES
        return f"{self.reason}; {TAKE_ALONG}" if is_missing else self.reason


@quick_value
class Ended:
    """The command has ended there, and what it printed has arrived."""

    status: int
    cause: str = "exited"
    reason: str = ""
    signal: int = 0
    cpu_s: float = 0.0
    trouble: str = ""  # why not all of its input or output was moved
    untouched: bool = False  # it has neither read nor written, by what we have seen ourselves
    peak_bytes: int = 0  # of memory
    heard_signals: int | None = None  # while it ran, bit N for signal N; None: nobody knows


@quick_value
class Fetched:
    trouble: str = ""  # why its files did not all come back


@quick_value
class ContactLost:
    """It may run, may have run or not."""

    reason: str


@quick_value
class Failed:
    """Something here stands in the way of it."""

    reason: str


@quick_value
class Used:
    """The caller, which has run it here as its child, says what it took."""

    cpu_s: float
    status: int
    peak_bytes: int = 0


@quick_value
class EndedHere:
    """The process of the caller, which had become the command, has ended."""

    cpu_s: float | None = None  # as far as it could be seen
    status: int | None = None


@quick_value
class UserSignal:
    number: int


@quick_value
class CallerGone:
    pass


Event = (
    Judged | Looked | SlotsKnown | LimSaid | LimRefused | LimSilent | Waited | TurnTaken
    | NeedsTaken | Sent | Unseen | StartedThere | Refused | Ended | Fetched | ContactLost | Failed
    | Used | EndedHere | UserSignal | CallerGone
)  # fmt: skip


# -- actions ---------------------------------------------------------------------------------------


@quick_value
class Look:
    """Answered by Looked. `lacking`: it matters who lacks what it needs; `host`: the named one."""

    lacking: bool
    host: HostId | None


@quick_value
class AskSlots:
    """Of all hosts. Answered by SlotsKnown, LimRefused or LimSilent. `insist`: also if the LIM did
    not answer lately, for nothing else will do."""

    insist: bool


@quick_value
class AskLim:
    """Where to? Answered by LimSaid, LimRefused or LimSilent. `insist`: as in AskSlots."""

    question: Question
    insist: bool


@quick_value
class WaitForRoom:
    """Answered by Waited."""

    limit_s: float


@quick_value
class TakeTurn:
    """Answered by TurnTaken."""


@quick_value
class GiveTurnBack:
    pass


@quick_value
class TakeNeeds:
    """What it needs of this host, to run here. Answered by NeedsTaken."""


@quick_value
class GiveNeedsBack:
    pass


@quick_value
class Start:
    """Answered by Unseen or Failed, or by Sent and then Started, Refused or ContactLost."""

    host: HostId
    address: str


@quick_value
class AwaitAnswer:
    """To a start that was sent before a restart of this LBM. Answered as Start, after Sent."""


@quick_value
class Follow:
    """Move its input and output. Answered by Ended, ContactLost or Failed. `keep`: the caller's
    descriptors may be needed for another start."""

    keep: bool


@quick_value
class Fetch:
    """Bring its files back. Answered by Fetched."""

    status: int


@quick_value
class Forward:
    """A signal, to the command."""

    number: int


@quick_value
class LetGo:
    """Of that host: what there is of the command ends and is removed. `number`: by that signal, if
    it has begun there and nobody here knows; 0 = TERM."""

    host: HostId
    number: int = 0


@quick_value
class RunHere:
    """The caller becomes the command. Followed by Used, if measured, and EndedHere."""

    reason: str
    slots: int = 0  # it may use; 0 = it did not ask
    measure: bool = False
    pinned: bool = False  # it could run nowhere else
    grant: Grant = NOTHING


@quick_value
class Away:
    """It would leave, which is all that the caller wanted to know."""


@quick_value
class Finish:
    end: CommandEnd


@quick_value
class RecordEnd:
    """In the accounts, as ended."""

    state: JobState
    status: int | None = None
    cpu_s: float | None = None
    reason: str = ""


@quick_value
class BegunHere:
    """In the accounts, as running elsewhere; the caller hears of it with -v."""

    host: HostId
    reason: str
    note: str = ""
    wrong: bool = False  # the load was the reason, and that host is no less busy


@quick_value
class BeginAgain:
    """In the accounts, as waiting, under a new name: nothing begins twice under one."""

    reason: str


@quick_value
class Warn:
    text: str
    once: bool = False  # a minute for all commands that one line of a shell has started


@quick_value
class Charge:
    """Nothing to decide for the LIM, but it is to count the command there."""

    question: Question


@quick_value
class Discharge:
    """The LIM counts it no longer. `charged`: it did, or may have; else it has only heard of the
    start."""

    host: HostId
    charged: bool


@quick_value
class Lacks:
    """That host does not have its directory, or its program; `phase` says which."""

    host: HostId
    phase: str


@quick_value
class Trouble:
    """For the LIM: that host could not be used."""

    host: HostId
    reason: str


@quick_value
class Learn:
    """What it took elsewhere."""

    cpu_s: float
    cause: str
    peak_bytes: int = 0


@quick_value
class Measured:
    """What it took here."""

    cpu_s: float
    status: int
    peak_bytes: int = 0


Action = (
    Look | AskSlots | AskLim | WaitForRoom | TakeTurn | GiveTurnBack | TakeNeeds | GiveNeedsBack
    | Start | AwaitAnswer | Follow
    | Fetch | Forward | LetGo | RunHere | Away | Finish | RecordEnd | BegunHere | BeginAgain | Warn
    | Charge | Discharge | Lacks | Trouble | Learn | Measured
)  # fmt: skip
# Those that are answered.
ANSWERED: frozenset[type] = frozenset((
    Look, AskSlots, AskLim, WaitForRoom, TakeTurn, TakeNeeds, Start, AwaitAnswer, Follow, Fetch,
))  # fmt: skip
