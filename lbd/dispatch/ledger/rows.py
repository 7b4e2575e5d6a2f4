"""What a ledger keeps, and what every kind of ledger can do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from lbd.dispatch.discipline import QueuedJob
from lbd.dispatch.jobs import Record
from lbd.errors import LbdError
from lbd.model import HostId, JobId


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

    def jobs(
        self, accepted: "Accepted", estimate_s: float | None = None, *, by_uid: bool = False
    ) -> Iterator[QueuedJob]:
        """As the queue sees them; `by_uid`: users are told apart by their numbers."""
        only = HostId(self.only) if self.only else None
        barred = frozenset(map(HostId, self.excluded))
        for n in range(self.count):
            yield QueuedJob(
                JobId(str(accepted.first + n)),
                self.slots,
                self.may_restart,
                estimate_s=estimate_s,
                only=only,
                barred=barred,
                slots_most=self.slots_most,
                user=share_of(self.user, self.uid, by_uid=by_uid),
                name=self.name,
                priority=self.priority,
                array=accepted.submission if self.first_index is not None else 0,
                submission=accepted.submission,
                array_index=None if self.first_index is None else self.first_index + n,
            )


def share_of(user: str, uid: int | None, *, by_uid: bool) -> str:
    """Under which word shares and limits count this user's jobs."""
    return f"uid {uid}" if by_uid and uid is not None else user


@dataclass(frozen=True, slots=True)
class Stored:
    """What an attempt of a submission is started with, and for whom."""

    spec: bytes
    origin: str
    user: str
    uid: int | None  # None: of a ledger that did not keep it


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
    wish: str = ""  # what it is to be ended for


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs a question is about: those with these ids, or the last `limit`."""

    ranges: tuple[tuple[int, int], ...] = ()  # both ends included
    user: str = ""  # "" = anybody's
    uid: int | None = None  # with `user`: by number, and by name only where no number is known
    ended_too: bool = False
    ended_only: bool = False
    limit: int = 10_000
    bytes_max: int = 0  # of their commands: no more once it is reached; 0 = all of them


class Ledger(Protocol):
    """What was awaited is on disk, and outlives whatever happens to us. Raises LedgerTrouble."""

    trouble: str  # why changes cannot be recorded just now, "" if they can

    async def live(self, after: int = 0, limit: int | None = None) -> list[JobRow]:
        """The jobs with ids above `after` that have not ended, the oldest first."""
        ...

    async def accepted(self, submission: Submission) -> Accepted | None:
        """What came before with the same key."""
        ...

    async def submit(self, submission: Submission, unix_s: float) -> Accepted: ...

    async def record(self, changes: Sequence[Record], unix_s: float) -> None: ...

    async def find(self, wanted: Wanted) -> list[JobRow]: ...

    async def attempts(self, jobs: Sequence[JobId]) -> list[AttemptRow]: ...

    async def spec(self, submission: int) -> Stored: ...

    async def forget(self, before_unix_s: float, keep: int, limit: int) -> int:
        """Jobs that ended before then, or that have ended and are older than the last `keep`; no
        more than `limit` of them; how many it were."""
        ...

    async def close(self) -> None: ...
