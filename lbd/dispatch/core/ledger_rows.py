"""What a ledger stores, and what every kind of ledger can do.

One file because rows, submissions and jobs repeat each other's fields: who adds one adds it to all.
"""

from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Protocol

from lbd.dispatch.core.discipline import NOT_FORETOLD, Foretold, QueuedJob, Target
from lbd.dispatch.core.ledger_room import Disk, Excess, LedgerRoom, OnRecord, Weight
from lbd.dispatch.core.records import Record
from lbd.dispatch.core.run_times import line_of, name_hash
from lbd.errors import LbdError
from lbd.model import ENDED_NAMES, HostId, JobId, JobState, quick_value
from lbd.policy.invocation import key_of
from lbd.text.index_list import Runs, run, runs_text
from lbd.text.needs_words import read_needs_text

ROW_BYTES = 200  # of a job and its index entries, roughly
NAMED_BY = 4096  # bytes of a command that determine its name
NOTICED = ("running", "suspended", "pending", "lost", "failed", "cancelled")  # most notable first


class LedgerTrouble(LbdError):
    """It is not on disk: full, unreachable, or not our ledger."""

    def __init__(self, text: str, *, passes: bool = False) -> None:
        """`passes`: a retry may well succeed soon."""
        super().__init__(text)
        self.passes = passes


class Deposed(LedgerTrouble):
    """Another dispatcher leads: nothing of ours is written any more."""

    def __init__(self, text: str) -> None:
        super().__init__(text, passes=True)


@quick_value
class Submission:
    """The request of one `lbrun`: one job, or those of an array. `spec` is opaque here."""

    user: str
    uid: int  # of `user` on `origin`
    origin: str
    name: str
    command: bytes  # for display: its words, a NUL after each
    spec: bytes  # a StoredSpec of dispatch.proto: what an attempt needs
    slots: int = 1
    may_restart: bool = True
    only: str = ""  # -H
    excluded: tuple[str, ...] = ()  # -x
    key: str = ""  # --idempotency-key; "": none
    first_index: int | None = None  # of an array
    count: int = 1
    slots_most: int = 0  # the most slots it can use; 0: no more than `slots`
    priority: int = 0
    target: float | None = None  # of an array: when it should end, UNIX seconds
    deadline: float | None = None  # or by when
    gang: int = 0  # how many start together; 0: each starts alone
    limit_s: float = 0.0  # wall clock; 0: no limit
    speedup: tuple[float, float] | None = None  # A and σ, if the user gave them
    work_s: float | None = None  # on one slot, likewise
    foretold: Foretold = NOT_FORETOLD  # for the first task of an array: the others take turns
    indexes: Runs = ()  # of an array, unless consecutive from `first_index`
    at_once: int = 0  # tasks of an array that may run at once; 0: no limit
    after: str = ""  # how other jobs must end first, as written by dependencies/conditions.py
    not_before: float = 0.0  # UNIX seconds; 0: none
    needs: str = ""  # of a host besides slots, as written by text/needs_words.py
    spooled: bool = True  # its jobs print to their host's disk of outputs
    takes_checkpoints: bool = True  # they may stop at one, to be continued

    @property
    def barred_text(self) -> str:
        """The excluded hosts as recorded with each of its jobs."""
        return " ".join(self.excluded)

    @property
    def size_bytes(self) -> int:
        """Size on record, including its jobs."""
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
        """Yields the index of each of its jobs, in order."""
        if self.first_index is None:
            return (None for _ in range(self.count))
        return (index for first, last, step in self.runs for index in range(first, last + 1, step))

    def jobs(
        self, accepted: "Accepted", estimate_s: float | None = None, *, by_uid: bool = False
    ) -> Iterator[QueuedJob]:
        """Yields the jobs as the queue sees them; `by_uid`: users are identified by number."""
        only = HostId(self.only) if self.only else None
        barred = frozenset(map(HostId, self.excluded))
        command, needs = name_hash(command_of(self.command)), read_needs_text(self.needs)
        line, target = line_of(self.command), target_of(self.target, self.deadline)
        user = share_of(self.user, self.uid, by_uid=by_uid)
        for number, index in enumerate(self.array_indexes(), accepted.first):
            yield QueuedJob(
                JobId(str(number)),
                self.slots,
                self.may_restart,
                estimate_s=estimate_s,
                only=only,
                barred=barred,
                slots_most=self.slots_most,
                user=user,
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
                target=target,
                origin=self.origin,
                at_once=self.at_once,
                needs=needs,
                command_line=line,
                spooled=self.spooled,
                takes_checkpoints=self.takes_checkpoints,
            )


def target_of(target: float | None, deadline: float | None) -> Target | None:
    if deadline is not None:
        return Target(deadline, is_deadline=True)
    return None if target is None else Target(target)


def command_of(command: bytes) -> str:
    """Returns the name under which the runs of a command are learnt from."""
    return name_in(command[:NAMED_BY])


@lru_cache(maxsize=256)  # each submission asks three times, and most commands come again
def name_in(command: bytes) -> str:
    return key_of(command.split(b"\0"))


def share_of(user: str, uid: int | None, *, by_uid: bool) -> str:
    """Returns the key under which shares and limits count this user's jobs."""
    return f"uid {uid}" if by_uid and uid is not None else user


@dataclass(frozen=True, slots=True)
class Stored:
    """What a submission's attempts are started with, and for whom."""

    spec: bytes
    origin: str
    user: str
    uid: int
    key: str = ""  # --idempotency-key


@dataclass(frozen=True, slots=True)
class SubmissionRange:
    """The numbers of a submission's jobs."""

    first: int
    count: int
    indexes: str  # of an array; else ""

    @property
    def last(self) -> int:
        return self.first + self.count - 1


@dataclass(frozen=True, slots=True)
class Accepted:
    """Where it is in the ledger; `is_new` is False if its key came before."""

    submission: int
    first: int  # id of its first job; the others follow
    count: int
    is_new: bool
    is_other: bool = False  # the earlier submission with that key differs


@dataclass(slots=True)
class JobRow:
    """A job as stored in the ledger. Times are UNIX seconds; None: not yet.

    Nobody changes one. It is not frozen only because that takes five times as long to make, and a
    list or a watcher of an array reads very many.
    """

    id: int
    submission: int
    user: str
    uid: int  # of `user` on `origin`
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
    requeued: float | None  # when it was requeued after its end
    target: float | None = None  # of its array, as in `Submission`
    deadline: float | None = None
    gang: int = 0
    limit_s: float = 0.0
    predicted_s: float | None = None  # predicted wait: `Foretold.raw_s`
    parallelism: float | None = None  # A, σ and its work on one slot, if its user gave them
    sigma: float | None = None
    work_s: float | None = None
    first: int = 0  # first job's id in its submission; the id of an array
    count: int = 1  # jobs of its submission
    indexes: str = ""  # of its array, as written by `index_list`
    at_once: int = 0  # of its array, as in `Submission`
    needs: str = ""  # as in `Submission`
    spooled: bool = True  # likewise
    takes_checkpoints: bool = True  # likewise
    suspended_s: float = 0.0  # time its last attempt was suspended: by SIGSTOP or its host's owner
    suspended: float | None = None  # suspended since then
    after: str = ""  # of its submission, as is the next
    not_before: float = 0.0
    met: bool = False  # its dependencies are met
    foretold_s: float | None = None  # the rest of `Foretold`
    foretold_low_s: float | None = None
    foretold_high_s: float | None = None
    max_rss_bytes: int = 0  # of its last attempt's largest process; 0: not known

    @property
    def run_s(self) -> float | None:
        """How long its last attempt ran, without suspended time; None unless it has ended."""
        return self.ran_by(self.finished) if self.finished is not None else None

    def ran_by(self, unix_s: float) -> float | None:
        """The same up to `unix_s`, for a job that has begun."""
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


ATTEMPTS_KEPT = 1000  # the last of each job, as it may be requeued without end
UNREADABLE = "unreadable"  # the fate of an attempt with an invalid row


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
    stop_reason: str = ""  # why it is to end


@dataclass(frozen=True, slots=True)
class Tally:
    """The tasks of an array in total; `waiting`: id ranges of the first waiting tasks."""

    states: Mapping[str, int]
    started: float | None  # the earliest
    finished: float | None  # the latest
    cpu_s: float | None
    slots: int  # held
    held_count: int = 0
    waiting: Sequence[tuple[int, int]] = ()
    held: Sequence[tuple[int, int]] = ()  # likewise of the held ones among them
    bad: Sequence["BadTask"] = ()  # the first that failed or were lost
    suspended_for: str = ""  # the reason of the first suspended task
    cancelled_for: str = ""  # the reason of cancelled ones, if they have it in common
    foretold: Foretold = NOT_FORETOLD  # as shown: the wait of its first task
    max_rss_bytes: int = 0  # of the largest process of any task

    @property
    def open(self) -> int:
        return sum(count for state, count in self.states.items() if state not in ENDED_NAMES)

    @property
    def state(self) -> str:
        """The state of the array: the most notable state of its tasks."""
        return next((state for state in NOTICED if self.states.get(state)), JobState.DONE.value)


@dataclass(frozen=True, slots=True)
class BadTask:
    index: int
    state: str
    exit_status: int | None
    signal: int
    cause: str
    reason: str = ""  # why it could not be started


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a question is about: those with these ids, or the last `limit`."""

    ranges: tuple[tuple[int, int], ...] = ()  # both ends included
    user: str = ""  # "": any user
    uid: int | None = None  # with `user`: by number instead of by name
    ended_too: bool = False
    ended_only: bool = False
    ended_since: float = 0.0  # UNIX seconds: also jobs that ended from then on; 0: none
    foretold_only: bool = False  # only jobs with a predicted wait
    limit: int = 10_000
    bytes_max: int = 0  # of commands: stops once reached; 0: no limit
    commands: bool = True  # include commands; else they are empty
    # Tasks by array number and indexes, before they are looked up.
    tasks: tuple[tuple[int, Runs], ...] = ()


Sample = list[tuple[JobRow, int]]  # with how many jobs of its user each stands for


class Ledger(Protocol):
    """Whatever was awaited is on disk, and survives any crash. Raises LedgerTrouble."""

    room: LedgerRoom
    trouble: str  # why changes cannot be recorded now; "" if they can

    async def live(self, after: int = 0, limit: int | None = None) -> list[JobRow]:
        """Returns the jobs with ids above `after` that have not ended, oldest first."""
        ...

    async def accepted(self, submission: Submission) -> Accepted | None:
        """Returns the submission accepted earlier under the same key."""
        ...

    async def submit(self, submission: Submission, unix_s: float) -> Accepted: ...

    def record(self, changes: Sequence[Record], unix_s: float) -> Awaitable[object]:
        """Starts at once, awaited or not."""
        ...

    async def find(self, wanted: Wanted) -> list[JobRow]: ...

    async def sample(self, since_unix_s: float, limit: int, rng: Random, *, by_uid: bool) -> Sample:
        """Returns ended jobs for those submitted since then, of each user an even share of the
        limit."""
        ...

    async def count(self, wanted: Wanted, *, by_array: bool) -> int:
        """Returns how many jobs `find` or `lines` would return if it had no limits."""
        ...

    async def lines(self, wanted: Wanted) -> list[JobRow]:
        """As `find`, but returns one task per array, whichever is found first."""
        ...

    async def tallies(self, arrays: Sequence[JobRow]) -> dict[int, Tally]:
        """Returns the tallies by array id; each array is given by one row."""
        ...

    async def arrays(self, numbers: Sequence[int]) -> dict[int, "SubmissionRange"]:
        """Returns, by job number, the submissions that these jobs belong to."""
        ...

    async def attempts(self, jobs: Sequence[JobId], most: int = ATTEMPTS_KEPT) -> list[AttemptRow]:
        """Returns the last attempts of each job."""
        ...

    async def spec(self, submission: int) -> Stored: ...

    async def counter(self, name: str) -> int | None: ...

    async def ended_otherwise(self, first: int, last: int) -> tuple[int, bool]:
        """Returns how many of these jobs are on record, and whether one ended unsuccessfully."""
        ...

    async def on_record(self, *, by_uid: bool) -> list[OnRecord]:
        """What is on record, by user and host."""
        ...

    async def excess(
        self, found: Sequence[OnRecord], weight: Weight, keep: int, *, by_uid: bool
    ) -> Excess:
        """Returns what exceeds an even share of `keep` jobs or bytes."""
        ...

    def disk(self) -> Disk | None:
        """Returns the state of the ledger's disk; None if unknown."""
        ...

    async def forget(self, before_unix_s: float, excess: Excess, limit: int) -> int:
        """Deletes jobs that ended before then, and ended jobs of the excess, at most `limit`.
        Returns how many."""
        ...

    async def close(self) -> None: ...
