"""Whose job is it, and who may act on others'? Pure.

By name, or by number where names may be those of others elsewhere. Each host says which of its
users are administrators. So that none acts on the jobs of all, its word counts for the jobs that it
has submitted, and for others' only where the dispatcher's host says so.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from lbd.config.schema import Config
from lbd.dispatch.core.ledger_rows import JobRow


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks; `uid` only where jobs belong to numbers (users.map = "uid")."""

    user: str
    uid: int | None = None


def fault_of_admins(host: str, config: Config) -> str:
    """Why the word of `host`, that an administrator asks, does not count for others' jobs; "" if it
    does. `config`: of the dispatcher's host."""
    if host in config.dispatch.hosts or config.admin.are_on(host):
        return ""
    return (
        f"; administrators can act on it from {config.host.name}, where the "
        f"dispatcher runs, or if admin.hosts there names {host}"
    )


@dataclass(frozen=True, slots=True)
class Owners:
    by_uid: bool
    uid_of: Callable[[int], Awaitable[int]]  # of the submission with this id, as it was stored

    def asker(self, user: str, uid: int | None) -> Asker:
        return Asker(user, uid if self.by_uid else None)

    def owns(self, asker: Asker, row: JobRow) -> bool:
        if self.by_uid:
            return asker.uid is not None and asker.uid == row.uid
        return asker.user == row.user

    async def known(self, rows: Sequence[JobRow]) -> list[JobRow]:
        """With their users' numbers where those count, also of what an older ledger kept."""
        old = {row.submission for row in rows if row.uid is None} if self.by_uid else ()
        uids = {number: await self.uid_of(number) for number in old}
        return [replace(row, uid=uids[row.submission]) if row.submission in uids else row
                for row in rows]  # fmt: skip
