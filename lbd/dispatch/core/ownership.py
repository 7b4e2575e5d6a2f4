"""Who owns a job, and who may act on others' jobs. Pure.

Users are identified by name, or by number where a name may belong to another person on another
host. Each host says which of its users are administrators. So that no host can act on everybody's
jobs, its claim counts for the jobs that it submitted, and for others' only if the dispatcher's host
allows it.
"""

from dataclasses import dataclass

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

    def asker(self, user: str, uid: int | None) -> Asker:
        return Asker(user, uid if self.by_uid else None)

    def owns(self, asker: Asker, row: JobRow) -> bool:
        if self.by_uid:
            return asker.uid is not None and asker.uid == row.uid
        return asker.user == row.user
