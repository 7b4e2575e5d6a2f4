"""The events and actions of `journey.Journey.handle`: what happens to a command on its way out, and
what the journey orders. They are plain values, so that they can be saved and replayed.

An action that says "answered by" is the last of its list; its answer is the next event of that
kind. The other actions are done at once.

One file because it is one vocabulary: most of it is one small record after the other.
"""

import re
from collections.abc import Mapping
from errno import EACCES, ENOENT

from lbd.lbm.core.slots import NOTHING, Grant
from lbd.model import HostId, JobState, Verdict, quick_value
from lbd.text.one_line import one_line

LBRUN_FAILED = 125  # it never began, or its end is unknown
CANNOT_EXECUTE, NOT_FOUND = 126, 127
BY_SIGNAL = 128  # plus the number of the signal
NOT_SHARED = ("chdir", "directory")  # phases: the directory is missing or a different one
REMOVED = re.compile(r" \(deleted\)(?=:|$)")  # the kernel's mark for a working directory
GO_ELSEWHERE = "the working directory has been removed; go to another one, or use -C DIR"
TAKE_ALONG = "--send takes files along, --fetch brings them back"
LACKING = (*NOT_SHARED, "exec")  # phases of refusals by hosts that simply lack what is needed

Slots = Mapping[HostId, tuple[int, int]]  # for each host that is up: all slots, and the free ones


@quick_value
class CommandEnd:
    """A command's end, as its `lbrun` receives it."""

    status: int
    cause: str
    host: str = ""
    reason: str = ""
    signal: int = 0  # its number
    cpu_s: float = 0.0
    attempt: int = 1  # number of the attempt of a queued job
    heard_signals: int | None = None  # signals it handled, bit N for signal N; None: unknown


def status_of_refusal(phase: str, errno: int) -> int:
    """`phase`: where the start failed."""
    if phase != "exec":
        return LBRUN_FAILED
    return NOT_FOUND if errno == ENOENT else CANNOT_EXECUTE


def why_ended(
    cause: str, reason: str, host: HostId, timeout_s: float = 0.0, memory_bytes: int = 0
) -> str:
    """Returns why a command did not end by itself; "" if it did. `reason`: what that host said, if
    it did."""
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
    """What the LIM needs to know to place a command, besides its user and its expected cost."""

    wanted: HostId | None
    excluded: frozenset[HostId]
    must_leave: bool
    must_stay: bool
    may_wait: bool


# -- events ----------------------------------------------------------------------------------------


@quick_value
class Judged:
    """What lists, tables and experience say about the command: the first event."""

    leaves: bool
    reason: str = ""
    measure: bool = False  # if it stays here


@quick_value
class Looked:
    """The hosts that recently said they lack its directory or its program, and the address of the
    LBM of the host that the user named; "" = the LIM must be asked."""

    lacking: frozenset[HostId] = frozenset()
    left_out: str = ""  # the same in words, for people
    address: str = ""
    lacks_program: bool = False  # what one of these hosts lacks is its program


@quick_value
class SlotsKnown:
    slots: Slots


@quick_value
class LimSaid:
    verdict: Verdict
    host: HostId
    address: str = ""
    reason: str = ""
    phrase: str = ""  # the reason with its numbers, if it will be shown
    seen: str = ""  # hosts and loads that were compared, to be kept with the command


@quick_value
class LimRefused:
    """No host can take it, or the question is not valid."""

    reason: str


@quick_value
class LimSilent:
    """The LIM did not answer in time, or recently. `address`: as in Looked, from its last
    answer.
    """

    reason: str
    address: str = ""


@quick_value
class Waited:
    """There may be room: a job has ended, or the time is up."""


@quick_value
class TurnTaken:
    """`granted`: it counts as one of the commands that run here because a host failed."""

    granted: bool


@quick_value
class NeedsTaken:
    """The resources of this host. `grant` None: it did not get them."""

    grant: Grant | None
    why: str = ""
    later: bool = False  # other commands hold them


@quick_value
class Sent:
    """The request is on its way to the host: from now on the command may run there."""


@quick_value
class Unseen:
    """Its directory cannot be examined here, so no host can be asked for the same one."""

    reason: str


@quick_value
class StartedThere:
    note: str = ""  # for -v
    no_less_busy: bool = False  # the other host was no less busy than ours: a wrong transfer


@quick_value
class Refused:
    """The host did not run it. `fault`: the host failed, rather than declined."""

    reason: str
    phase: str = ""  # where the start failed
    errno: int = 0
    fault: bool = False
    full: bool = False  # all its slots were taken a moment ago

    @property
    def lacks_something(self) -> bool:
        """Whether the host lacks what the command needs, so that it was no candidate."""
        return self.phase in LACKING

    @property
    def status(self) -> int:
        """The exit status for a command that fails because of this refusal."""
        return status_of_refusal(self.phase, self.errno)

    @property
    def advice(self) -> str:
        """`reason`, with what to do about it."""
        is_missing = self.phase in NOT_SHARED and self.errno != EACCES
        if is_missing and (removed := REMOVED.search(self.reason)):
            return f"{self.reason[: removed.start()]}: {GO_ELSEWHERE}"
        return f"{self.reason}; {TAKE_ALONG}" if is_missing else self.reason


@quick_value
class Ended:
    """The command has ended on the other host, and its output has arrived."""

    status: int
    cause: str = "exited"
    reason: str = ""
    signal: int = 0
    cpu_s: float = 0.0
    trouble: str = ""  # why not all of its input or output was moved
    untouched: bool = False  # it has neither read nor written, as seen from this host
    peak_bytes: int = 0  # peak memory
    heard_signals: int | None = None  # signals it handled, bit N for signal N; None: unknown
    wall_s: float = 0.0  # how long it ran there


@quick_value
class Fetched:
    trouble: str = ""  # why not all of its files came back


@quick_value
class ContactLost:
    """It may be running, may have run, or may not have."""

    reason: str


@quick_value
class Failed:
    """Something on this host prevents it."""

    reason: str


@quick_value
class Used:
    """The caller, which has run the command here as its child, reports what it used."""

    cpu_s: float
    status: int
    peak_bytes: int = 0


@quick_value
class NotRun:
    """The caller reports that the command could not be executed here after all."""

    status: int
    reason: str


@quick_value
class EndedHere:
    """The process of the caller, which had become the command, has ended."""

    cpu_s: float | None = None  # as far as it could be measured
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
    | Used | NotRun | EndedHere | UserSignal | CallerGone
)  # fmt: skip


# -- actions ---------------------------------------------------------------------------------------


@quick_value
class Look:
    """Looks up where the command may go. Answered by Looked. `lacking`: hosts that lack what it
    needs matter; `host`: the named host."""

    lacking: bool
    host: HostId | None


@quick_value
class AskSlots:
    """Asks for the slots of all hosts. Answered by SlotsKnown, LimRefused or LimSilent. `insist`:
    ask even if the LIM did not answer recently, because there is no alternative."""

    insist: bool


@quick_value
class AskLim:
    """Asks the LIM for a place. Answered by LimSaid, LimRefused or LimSilent. `insist`: as in
    AskSlots."""

    question: Question
    insist: bool


@quick_value
class WaitForRoom:
    """Waits until there may be room. Answered by Waited."""

    limit_s: float


@quick_value
class TakeTurn:
    """Asks for a turn to run here. Answered by TurnTaken."""


@quick_value
class GiveTurnBack:
    pass


@quick_value
class TakeNeeds:
    """Takes the resources of this host that the command needs to run here. Answered by
    NeedsTaken.
    """


@quick_value
class GiveNeedsBack:
    pass


@quick_value
class Start:
    """Starts the command on that host. Answered by Unseen or Failed, or by Sent and then Started,
    Refused or ContactLost."""

    host: HostId
    address: str


@quick_value
class AwaitAnswer:
    """Waits for the answer to a start that was sent before a restart of this LBM. Answered as
    Start, after Sent."""


@quick_value
class Follow:
    """Moves its input and output. Answered by Ended, ContactLost or Failed. `keep`: the caller's
    descriptors may be needed for another start."""

    keep: bool


@quick_value
class Fetch:
    """Brings its files back. Answered by Fetched."""

    status: int


@quick_value
class Forward:
    """Sends a signal to the command."""

    number: int


@quick_value
class LetGo:
    """Ends and removes whatever that host holds of the command. `number`: the signal to end it by,
    if it has begun there unnoticed; 0 = TERM."""

    host: HostId
    number: int = 0


@quick_value
class RunHere:
    """The caller becomes the command. Followed by Used, if measured, and EndedHere."""

    reason: str
    slots: int = 0  # that it may use; 0 = it did not ask
    measure: bool = False
    pinned: bool = False  # it could run nowhere else
    grant: Grant = NOTHING


@quick_value
class Away:
    """Reports that the command would leave, which is all that the caller asked."""


@quick_value
class Finish:
    end: CommandEnd


@quick_value
class RecordEnd:
    """Records the command as ended."""

    state: JobState
    status: int | None = None
    cpu_s: float | None = None
    reason: str = ""
    ran_s: float = 0.0  # at least
    never_ran: bool = False  # although it is recorded as running


@quick_value
class BegunHere:
    """Records the command as running elsewhere; the caller is told with -v."""

    host: HostId
    reason: str
    note: str = ""
    wrong: bool = False  # moved because of the load, to a host that is no less busy


@quick_value
class BeginAgain:
    """Records the command as waiting, under a new id: no id is started twice."""

    reason: str


@quick_value
class Warn:
    text: str
    once: bool = False  # a minute, for all commands that one line of a shell has started


@quick_value
class Charge:
    """Has the LIM count the command on that host; the LIM has nothing to decide."""

    question: Question


@quick_value
class Discharge:
    """Has the LIM stop counting the command. `charged`: the LIM counts it, or may; otherwise it was
    only notified of the start."""

    host: HostId
    charged: bool


@quick_value
class Lacks:
    """That host does not have its directory, or its program; `phase` says which."""

    host: HostId
    phase: str


@quick_value
class Trouble:
    """Tells the LIM that the host could not be used."""

    host: HostId
    reason: str


@quick_value
class Learn:
    """Notes what the command used elsewhere."""

    cpu_s: float
    cause: str
    peak_bytes: int = 0


@quick_value
class Measured:
    """Notes what the command used here."""

    cpu_s: float
    status: int
    peak_bytes: int = 0


Action = (
    Look | AskSlots | AskLim | WaitForRoom | TakeTurn | GiveTurnBack | TakeNeeds | GiveNeedsBack
    | Start | AwaitAnswer | Follow
    | Fetch | Forward | LetGo | RunHere | Away | Finish | RecordEnd | BegunHere | BeginAgain | Warn
    | Charge | Discharge | Lacks | Trouble | Learn | Measured
)  # fmt: skip
# The actions that are answered.
ANSWERED: frozenset[type] = frozenset((
    Look, AskSlots, AskLim, WaitForRoom, TakeTurn, TakeNeeds, Start, AwaitAnswer, Follow, Fetch,
))  # fmt: skip
