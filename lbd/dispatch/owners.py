"""Whose job is it? By name, or by number where names may be another's on another host. Pure."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from lbd.dispatch.ledger.rows import JobRow


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks; `uid` only where jobs belong to numbers (users.map = "uid")."""

    user: str
    uid: int | None = None


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
