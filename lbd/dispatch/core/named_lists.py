"""Counts the names that queued jobs ask for: excluded hosts (`-x`), features, resources. Pure.

A list of a thousand hosts takes a hundred kilobytes in memory, many times its size in the ledger,
and each submission may have a list of its own. So the names of one user, and of all users of one
host, are limited; and the tasks of a submission share one list of hosts.
"""

from collections import Counter
from dataclasses import dataclass, field

from lbd.dispatch.core.discipline import QueuedJob
from lbd.model import HostId, Needs

Barred = frozenset[HostId]
FEW = 8  # so few names take little more memory than the rest of a job
NAMES_OF_USER = 1_000_000  # 100 MB
HOST_USERS = 2  # the users of one host may have as many names as so many users
VARIANTS_MAX = 64


@dataclass(slots=True)
class Lists:
    """The lists of one submission, until its last job has left."""

    user: str
    origin: str
    names: int
    jobs: int = 0
    # Its excluded hosts, also with hosts added that have refused some of its jobs.
    variants: dict[Barred, Barred] = field(default_factory=dict)


class NamedLists:
    def __init__(self) -> None:
        self._of: dict[int, Lists] = {}  # by submission
        self._of_user: Counter[str] = Counter()  # names
        self._of_origin: Counter[str] = Counter()
        # names on their way to the ledger
        self._coming_of_user: Counter[str] = Counter()
        self._coming_of_origin: Counter[str] = Counter()

    def why_not(self, user: str, origin: str, more: int) -> str:
        """Returns why a submission with so many more names is refused, or ""."""
        limit_of_origin = HOST_USERS * NAMES_OF_USER
        for name, counts, coming, limit in (
            (user, self._of_user, self._coming_of_user, NAMES_OF_USER),
            (origin, self._of_origin, self._coming_of_origin, limit_of_origin),
        ):
            if more and (count := counts[name]) + coming[name] + more > limit:
                return (
                    f"jobs of {name} in the queue name {count} hosts, features and resources (-x, "
                    f"--feature, --need; an array counts once), and the limit is {limit}"
                )
        return ""

    def comes(self, user: str, origin: str, more: int) -> None:
        """Counts names of a submission that is not in the queue yet."""
        add(self._coming_of_user, user, more)
        add(self._coming_of_origin, origin, more)

    def came(self, job: QueuedJob) -> QueuedJob:
        """Counts a job until it is `gone`. Returns it with the list of hosts that its submission
        shares."""
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
        """Returns the set of these hosts that the jobs of a submission share."""
        if (found := self._of.get(submission)) is None:
            return barred
        if len(found.variants) >= VARIANTS_MAX:
            found.variants.clear()
        return found.variants.setdefault(barred, barred)

    def _count(self, one: Lists, sign: int) -> None:
        add(self._of_user, one.user, sign * one.names)
        add(self._of_origin, one.origin, sign * one.names)


def add(counts: Counter[str], whose: str, more: int) -> None:
    if not more:
        return
    counts[whose] += more
    if not counts[whose]:
        del counts[whose]


def counted(hosts: int, needs: Needs) -> int:
    """Returns how many of these names count."""
    names = hosts + len(needs.resources) + len(needs.features) + len(needs.not_features)
    return names if names > FEW else 0
