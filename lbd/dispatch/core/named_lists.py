"""The names in what jobs ask for, as far as the queue has them in memory: of hosts that their users
leave out (`-x`), and of features and resources. Pure.

A list of a thousand hosts takes a hundred kilobytes here, many times what it takes in the ledger,
and each submission may have another. So how many names there are of one user, and of the users of
one host, has a limit; and of hosts each submission has one list, however many of its tasks wait.
"""

from collections import Counter
from dataclasses import dataclass, field

from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import HostId, Needs

Barred = frozenset[HostId]
FEW = 8  # names, which take no more than the rest of a job, or not much
NAMES_OF_USER = 1_000_000  # 100 MB
HOST_USERS = 2  # whose names the users of one host may have together
VARIANTS_MAX = 64


@dataclass(slots=True)
class Lists:
    """Of one submission, until its last job has left."""

    user: str
    origin: str
    names: int
    jobs: int = 0
    # The hosts, and the same with those that have refused some of its jobs.
    variants: dict[Barred, Barred] = field(default_factory=dict)


class NamedLists:
    def __init__(self) -> None:
        self._of: dict[int, Lists] = {}  # by submission
        self._of_user: Counter[str] = Counter()  # names
        self._of_origin: Counter[str] = Counter()
        self._coming: Counter[str] = Counter()  # of each user, on the way to the ledger

    def why_not(self, user: str, origin: str, more: int) -> str:
        """Why no submission with so many is let in, "" if it is."""
        for name, count, limit in (
            (user, self._of_user[user], NAMES_OF_USER),
            (origin, self._of_origin[origin], HOST_USERS * NAMES_OF_USER),
        ):
            if more and count + self._coming[user] + more > limit:
                return (
                    f"jobs of {name} in the queue name {count} hosts, features and resources (-x, "
                    f"--feature, --need; an array counts once), and the limit is {limit}"
                )
        return ""

    def comes(self, user: str, more: int) -> None:
        """So many, of what is not in the queue yet."""
        if more:
            self._coming[user] += more
            if not self._coming[user]:
                del self._coming[user]

    def came(self, job: QueuedJob) -> QueuedJob:
        """It has not ended, and counts until it is `gone`. It shares its list of hosts."""
        if not (job.barred or job.needs):
            return job
        found = self._of.get(job.submission)
        if found is None:
            if not (names := counted(len(job.barred), job.needs)):
                return job
            found = self._of[job.submission] = Lists(job.user, job.origin, names)
            self._count(found, 1)
        found.jobs += 1
        barred = self.shared(job.submission, job.barred)
        return job if barred is job.barred else job._replace(barred=barred)

    def gone(self, job: QueuedJob) -> None:
        if (found := self._of.get(job.submission)) is None:
            return
        found.jobs -= 1
        if found.jobs <= 0:
            del self._of[job.submission]
            self._count(found, -1)

    def shared(self, submission: int, barred: Barred) -> Barred:
        """The same hosts, in one set for all jobs of a submission that are to leave them out."""
        if (found := self._of.get(submission)) is None:
            return barred
        if len(found.variants) >= VARIANTS_MAX:
            found.variants.clear()
        return found.variants.setdefault(barred, barred)

    def _count(self, one: Lists, sign: int) -> None:
        for counts, whose in ((self._of_user, one.user), (self._of_origin, one.origin)):
            counts[whose] += sign * one.names
            if not counts[whose]:
                del counts[whose]


def counted(hosts: int, needs: Needs) -> int:
    """How many names of these count."""
    names = hosts + len(needs.resources) + len(needs.features) + len(needs.not_features)
    return names if names > FEW else 0
