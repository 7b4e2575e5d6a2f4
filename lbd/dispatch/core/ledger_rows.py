"""What a ledger keeps, and what every kind of ledger can do."""

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lbd.dispatch.core.discipline import NOT_FORETOLD, Foretold, QueuedJob, Target
from lbd.dispatch.core.ledger_room import Disk, Excess, LedgerRoom, OnRecord, Weight
from lbd.dispatch.core.records import Record
from lbd.dispatch.core.run_times import line_of
from lbd.errors import LbdError
from lbd.model import ENDED_NAMES, HostId, JobId, JobState
from lbd.policy.invocation import key_of
from lbd.text.index_list import Runs, run, runs_text
from lbd.text.needs_words import read_needs_text

ROW_BYTES = 200  # of a job and its entries in indexes, about
NAMED_BY = 4096  # bytes of a command say what it is
NOTICED = ("running", "suspended", "pending", "lost", "failed", "cancelled")  # of tasks, first


class LedgerTrouble(LbdError):
    """It is not on disk: full, unreachable, or not a ledger of ours."""

    def __init__(self, text: str, *, passes: bool = False) -> None:
        """`passes`: the same may well succeed in a moment."""
        super().__init__(text)
        self.passes = passes


class Deposed(LedgerTrouble):
    """Another dispatcher leads: nothing of ours is written any more."""

    def __init__(self, text: str) -> None:
        super().__init__(text, passes=True)


@dataclass(frozen=True, slots=True)
class Submission:
    """What one `lbrun` asks for: one job, or those of an array. `spec` is opaque here."""

    user: str
    origin: str
    name: str
    command: bytes  # shown to people: its words, a NUL after each
    spec: bytes  # a StoredSpec of dispatch.proto: what an attempt needs
    slots: int = 1
    may_restart: bool = True
    only: str = ""  # -H
    excluded: tuple[str, ...] = ()  # -x
    key: str = ""  # --idempotency-key, "" = none
    first_index: int | None = None  # of an array
    count: int = 1
    slots_most: int = 0  # that it can use; 0: no more than `slots`
    priority: int = 0
    uid: int | None = None  # of `user` on `origin`
    target: float | None = None  # of an array: when it is to end, UNIX seconds; or
    deadline: float | None = None  # by when
    gang: int = 0  # how many of them begin together; 0: each begins alone
    limit_s: float = 0.0  # wall clock; 0: no limit
    speedup: tuple[float, float] | None = None  # A and σ, if its user gave them
    work_s: float | None = None  # on one slot, likewise
    foretold: Foretold = NOT_FORETOLD  # of an array its first task: the others take turns
    indexes: Runs = ()  # of an array, where they do not follow each other from `first_index` on
    at_once: int = 0  # how many of an array may run; 0: no limit
    after: str = ""  # how other jobs must end first, as dependencies/conditions.py writes it
    not_before: float = 0.0  # UNIX seconds; 0: at once
    needs: str = ""  # of a host besides slots, as text/needs_words.py writes them

    @property
    def barred_text(self) -> str:
        """As it is on record with each of its jobs."""
        return " ".join(self.excluded)

    @property
    def size_bytes(self) -> int:
        """On record, with its jobs."""
        texts = self.after, self.needs, self.name, self.key, runs_text(self.runs)
        own = len(self.command) + len(self.spec) + sum(map(len, texts))
        return own + self.count * (ROW_BYTES + len(self.barred_text))

    @property
    def runs(self) -> Runs:
        """All indexes of an array."""
        if self.indexes or self.first_index is None:
            return self.indexes
        return (run(self.first_index, self.first_index + self.count - 1, 1),)

    def array_indexes(self) -> Iterable[int | None]:
        """Of each of its jobs, in order."""
        if self.first_index is None:
            return (None for _ in range(self.count))
        return (index for first, last, step in self.runs for index in range(first, last + 1, step))

    def jobs(
        self, accepted: "Accepted", estimate_s: float | None = None, *, by_uid: bool = False
    ) -> Iterator[QueuedJob]:
        """As the queue sees them; `by_uid`: users are told apart by their numbers."""
        only = HostId(self.only) if self.only else None
        barred = frozenset(map(HostId, self.excluded))
        command, needs = command_of(self.command), read_needs_text(self.needs)
        line = line_of(self.command)
        for number, index in enumerate(self.array_indexes(), accepted.first):
            yield QueuedJob(
                JobId(str(number)),
                self.slots,
                self.may_restart,
                estimate_s=estimate_s,
                only=only,
                barred=barred,
                slots_most=self.slots_most,
                user=share_of(self.user, self.uid, by_uid=by_uid),
                name=self.name,
                priority=self.priority,
                array=0 if index is None else accepted.first,
                gang=self.gang,
                limit_s=self.limit_s,
                speedup=self.speedup,
                work_s=self.work_s,
                command=command,
                submission=accepted.submission,
                array_index=index,
                target=target_of(self.target, self.deadline),
                origin=self.origin,
                at_once=self.at_once,
                needs=needs,
                command_line=line,
            )


def target_of(target: float | None, deadline: float | None) -> Target | None:
    if deadline is not None:
        return Target(deadline, is_deadline=True)
    return None if target is None else Target(target)


def command_of(command: bytes) -> str:
    """Returns the name under which the runs of a command are learnt from."""
    return key_of(command[:NAMED_BY].split(b"\0"))


def share_of(user: str, uid: int | None, *, by_uid: bool) -> str:
    """Returns the key under which shares and limits count this user's jobs."""
    return f"uid {uid}" if by_uid and uid is not None else user


@dataclass(frozen=True, slots=True)
class Stored:
    """What an attempt of a submission is started with, and for whom."""

    spec: bytes
    origin: str
    user: str
    uid: int | None  # None: of a ledger that did not keep it
    key: str = ""  # --idempotency-key


@dataclass(frozen=True, slots=True)
class SubmissionRange:
    """The numbers of a submission's jobs."""

    first: int
    count: int
    indexes: str  # of an array; "" of any other

    @property
    def last(self) -> int:
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where it is in the ledger; `is_new` is False if the same key came before."""

    submission: int
    first: int  # id of its first job; the others follow
    count: int
    is_new: bool
    is_other: bool = False  # what came before with that key is not what came now


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the ledger has it. Times are UNIX seconds; None = not yet."""

    id: int
    submission: int
    user: str
    origin: str
    name: str
    command: bytes
    slots: int
    may_restart: bool
    only: str
    barred: tuple[str, ...]
    array_index: int | None
    state: str
    tier: int
    attempt: int
    crashes: int
    reason: str
    host: str
    submitted: float
    started: float | None
    finished: float | None
    cpu_s: float | None
    exit_status: int | None
    signal: int
    cause: str
    slots_most: int
    slots_held: int | None  # by its last attempt
    priority: int
    requeued: float | None  # when it came again after its end
    uid: int | None = None  # of `user` on `origin`; None: of a ledger that did not keep it
    target: float | None = None  # of its array, as in `Submission`
    deadline: float | None = None
    gang: int = 0
    limit_s: float = 0.0
    predicted_s: float | None = None  # its wait: `Foretold.raw_s`
    parallelism: float | None = None  # A, σ and its work on one slot, if its user gave them
    sigma: float | None = None
    work_s: float | None = None
    first: int = 0  # id of the first job of its submission; of an array, its own
    count: int = 1  # jobs of its submission
    indexes: str = ""  # of its array, as `index_list` writes them
    at_once: int = 0  # of its array, as in `Submission`
    needs: str = ""  # as in `Submission`
    suspended_s: float = 0.0  # of its last attempt's time: by SIGSTOP, or by its host's owner
    suspended: float | None = None  # since then it is
    after: str = ""  # of its submission, as there, with the next
    not_before: float = 0.0
    met: bool = False  # what it waited for has happened
    foretold_s: float | None = None  # the rest of `Foretold`
    foretold_low_s: float | None = None
    foretold_high_s: float | None = None

    @property
    def run_s(self) -> float | None:
        """How long its last attempt ran, suspended time left out; None where it has not ended."""
        return self.ran_by(self.finished) if self.finished is not None else None

    def ran_by(self, unix_s: float) -> float | None:
        """The same by then, of one that has begun."""
        if self.started is None:
            return None
        until = unix_s if self.suspended is None else min(unix_s, self.suspended)
        return max(0.0, until - self.started - max(0.0, self.suspended_s))

    @property
    def shown(self) -> str:
        """Its id as people know it."""
        return str(self.id) if self.array_index is None else f"{self.first}_{self.array_index}"

    @property
    def is_malleable(self) -> bool:
        return self.slots_most > self.slots

    @property
    def speedup(self) -> tuple[float, float] | None:
        return None if self.parallelism is None else (self.parallelism, self.sigma or 0.0)


ATTEMPTS_KEPT = 1000  # of each job, the last: it may be requeued without end
UNREADABLE = "unreadable"  # the fate of an attempt whose row makes no sense


@dataclass(frozen=True, slots=True)
class AttemptRow:
    job: int
    number: int
    host: str
    tier: int
    cutoff_s: float | None
    fate: str
    leased: float
    started: float | None
    finished: float | None
    cpu_s: float | None
    exit_status: int | None
    reason: str
    slots: int = 1
    stop_reason: str = ""  # what it is to be ended for


@dataclass(frozen=True, slots=True)
class Tally:
    """How the tasks of an array stand together; `waiting`: ids of those that wait, the first runs
    of them."""

    states: Mapping[str, int]
    started: float | None  # the first
    finished: float | None  # the last
    cpu_s: float | None
    slots: int  # that are held
    waiting: Sequence[tuple[int, int]] = ()
    bad: Sequence["BadTask"] = ()  # the first that failed or were lost
    suspended_for: str = ""  # the reason of the first that is suspended

    @property
    def open(self) -> int:
        return sum(count for state, count in self.states.items() if state not in ENDED_NAMES)

    @property
    def state(self) -> str:
        """Of the array: of its tasks, what is to be noticed first."""
        return next((state for state in NOTICED if self.states.get(state)), JobState.DONE.value)


@dataclass(frozen=True, slots=True)
class BadTask:
    index: int
    state: str
    exit_status: int | None
    signal: int
    cause: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a question is about: those with these ids, or the last `limit`."""

    ranges: tuple[tuple[int, int], ...] = ()  # both ends included
    user: str = ""  # "" = anybody's
    uid: int | None = None  # with `user`: by number, and by name only where no number is known
    ended_too: bool = False
    ended_only: bool = False
    foretold_only: bool = False  # of which a wait was predicted
    limit: int = 10_000
    bytes_max: int = 0  # of their commands: no more once it is reached; 0 = all of them
    commands: bool = True  # these as well; else empty
    # Tasks by the number of their array and their indexes, before they are looked up.
    tasks: tuple[tuple[int, Runs], ...] = ()


class Ledger(Protocol):
    """What was awaited is on disk, and outlives whatever happens to us. Raises LedgerTrouble."""

    room: LedgerRoom
    trouble: str  # why changes cannot be recorded just now, "" if they can

    async def live(self, after: int = 0, limit: int | None = None) -> list[JobRow]:
        """The jobs with ids above `after` that have not ended, the oldest first."""
        ...

    async def accepted(self, submission: Submission) -> Accepted | None:
        """Returns the submission accepted earlier under the same key."""
        ...

    async def submit(self, submission: Submission, unix_s: float) -> Accepted: ...

    def record(self, changes: Sequence[Record], unix_s: float) -> Awaitable[object]:
        """Begins at once, awaited or not."""
        ...

    async def find(self, wanted: Wanted) -> list[JobRow]: ...

    async def lines(self, wanted: Wanted) -> list[JobRow]:
        """As `find`, but of each array one task, whichever is found first."""
        ...

    async def tallies(self, arrays: Sequence[JobRow]) -> dict[int, Tally]:
        """By their ids; of each array one row is given."""
        ...

    async def arrays(self, numbers: Sequence[int]) -> dict[int, "SubmissionRange"]:
        """By number: the submissions of which the jobs with these numbers are."""
        ...

    async def attempts(self, jobs: Sequence[JobId], most: int = ATTEMPTS_KEPT) -> list[AttemptRow]:
        """Of each job the last ones."""
        ...

    async def spec(self, submission: int) -> Stored: ...

    async def ended_otherwise(self, first: int, last: int) -> tuple[int, bool]:
        """Of the jobs with these numbers: how many are on record, and whether one of them has ended
        otherwise than well."""
        ...

    async def on_record(self, *, by_uid: bool) -> list[OnRecord]:
        """What is on record, by user and host."""
        ...

    async def excess(
        self, found: Sequence[OnRecord], weight: Weight, keep: int, *, by_uid: bool
    ) -> Excess:
        """What of it is above an even share of `keep` jobs, or bytes."""
        ...

    def disk(self) -> Disk | None:
        """Where it is; None if that is not known."""
        ...

    async def forget(self, before_unix_s: float, excess: Excess, limit: int) -> int:
        """Jobs that ended before then, and those of the excess that have ended; no more than
        `limit` of them; how many it were."""
        ...

    async def close(self) -> None: ...
