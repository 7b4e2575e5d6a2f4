"""Who owns a job, and who may act on others' jobs. Pure.

Users are identified by name, or by number where a name may belong to another person on another
host. Each host says which of its users are administrators. So that no host can act on everybody's
jobs, its claim counts for the jobs that it submitted, and for others' only if the dispatcher's host
allows it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from lbd.config.schema import Config
from lbd.dispatch.core.ledger_rows import JobRow


@dataclass(frozen=True, slots=True)
class Asker:
    """The asking user; `uid` only where jobs belong to numbers (users.map = "uid")."""

    user: str
    uid: int | None = None


def fault_of_admins(host: str, config: Config) -> str:
    """Returns why an administrator on `host` may not act on others' jobs; "" if they may. `config`:
    of the dispatcher's host."""
    if host in config.dispatch.hosts or config.admin.are_on(host):
        return ""
    return (
        f"; administrators can act on it from {config.host.name}, where the "
        f"dispatcher runs, or if admin.hosts there names {host}"
    )


@dataclass(frozen=True, slots=True)
class Owners:
    by_uid: bool
    uid_of: Callable[[int], Awaitable[int]]  # of a stored submission's owner, by submission id

    def asker(self, user: str, uid: int | None) -> Asker:
        return Asker(user, uid if self.by_uid else None)

    def owns(self, asker: Asker, row: JobRow) -> bool:
        if self.by_uid:
            return asker.uid is not None and asker.uid == row.uid
        return asker.user == row.user

    async def known(self, rows: Sequence[JobRow]) -> list[JobRow]:
        """Fills in the users' numbers where those count, also for rows from an older ledger."""
        old = {row.submission for row in rows if row.uid is None} if self.by_uid else ()
        uids = {number: await self.uid_of(number) for number in old}
        return [replace(row, uid=uids[row.submission]) if row.submission in uids else row
                for row in rows]  # fmt: skip
