"""Limits on the room in the queue, so that no user or host can take all of it.

Otherwise one command line could fill the queue with a user's jobs and keep all others out while
these wait. So part of the room is left for other users, and part for users of other hosts.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lbd.dispatch.array_limits import conditions_most
from lbd.dispatch.core.ledger_room import NO_MORE, NONE_BEGINS
from lbd.dispatch.core.ledger_rows import JobRow, Submission, share_of
from lbd.dispatch.core.named_lists import counted
from lbd.dispatch.daemon import Dispatcher
from lbd.errors import LbdError
from lbd.local.rate_limit import Rates
from lbd.text.needs_words import read_needs_text

log = logging.getLogger("lbd.dispatch")

FULL_LINES = Rates(1 / 3600.0, 1.0)  # about a full disk: one an hour
USER_SHARE, HOST_SHARE = 0.75, 0.9  # of the queue
# Where users have limits or shares, each event looks at all users who wait, and a host may name any
# number of them.
USERS_OF_HOST_MAX = 4096


class QueueRoom:
    def __init__(self, dispatcher: Dispatcher) -> None:
        self._jobs, self._by_uid = dispatcher.life.jobs, dispatcher.by_uid
        self._targets = dispatcher.life.queues.targets
        self._dependents = dispatcher.life.dependents
        self._most_conditions = conditions_most(dispatcher.config.dispatch)
        self._config, self._ledger = dispatcher.config, dispatcher.ledger
        self._coming = 0  # jobs on their way to the ledger
        self._coming_of_user: dict[str, int] = {}
        self._coming_of_host: dict[str, int] = {}
        self._coming_conditions: dict[str, int] = {}  # by user

    def why_not(self, sent: Submission) -> str:
        """Returns why these jobs are not accepted now; "" if they are."""
        return self._why_not(sent, sent.count, is_new=True)

    def why_not_again(self, rows: Sequence[JobRow]) -> str:
        """Returns the same for ended jobs of one submission that are to start over."""
        return self._why_not(
            rows[0], len(rows), is_new=rows[0].submission not in self._targets.arrays
        )

    def _why_not(self, sent: Submission | JobRow, count: int, *, is_new: bool) -> str:
        """`is_new`: an array that is submitted now, or starts over."""
        user, most = self._user(sent), self._config.dispatch.max_jobs
        if len(self._jobs) + self._coming + count > most:
            return f"the queue is full (dispatch.max_jobs is {most})"
        of_user = self._jobs.of_user(user) + self._coming_of_user.get(user, 0)
        if of_user + count > (share := max(1, int(USER_SHARE * most))):
            return (
                f"{sent.user} has {of_user} jobs in the queue; the limit per user is {share} "
                f"({USER_SHARE:.0%} of dispatch.max_jobs)"
            )
        of_host = self._jobs.of_origin(sent.origin) + self._coming_of_host.get(sent.origin, 0)
        if of_host + count > (share := max(1, int(HOST_SHARE * most))):
            return (
                f"{sent.origin} has {of_host} jobs in the queue; the limit per host is {share} "
                f"({HOST_SHARE:.0%} of dispatch.max_jobs)"
            )
        users = self._jobs.users_of(sent.origin)
        if len(users) >= USERS_OF_HOST_MAX and user not in users:
            return (
                f"{sent.origin} has jobs of {len(users)} users in the queue; the limit per host is "
                f"{USERS_OF_HOST_MAX}"
            )
        if isinstance(sent, Submission) and (conditions := conditions_of(sent)):
            more = conditions + self._coming_conditions.get(user, 0)
            if why := self._dependents.why_not(user, sent.origin, more, self._most_conditions):
                return why
        if why := self._jobs.lists.why_not(user, sent.origin, count_names(sent)):
            return why
        if isinstance(sent, Submission):
            own = self._config.dispatch
            whose, disk = (user, sent.origin, sent.size_bytes), self._ledger.disk()
            if why := self._ledger.room.why_not(*whose, own.ledger_bytes, disk):
                return self._said(why)
        has_target = sent.target is not None or sent.deadline is not None
        return self._targets.why_not(user, sent.origin) if has_target and is_new else ""

    def _said(self, why: str) -> str:
        """Where nobody's jobs fit, this host is named, and its log has it too."""
        if not why.endswith((NO_MORE, NONE_BEGINS)):
            return why
        if FULL_LINES.turn_s(why, time.monotonic(), 0.0) is not None:
            log.warning("%s", why)
        return f"{self._config.host.name}: {why}"

    @contextmanager
    def taken(self, sent: Submission) -> Iterator[None]:
        """Reserves the room for these jobs until they are in the queue."""
        user, size_bytes = self._user(sent), sent.size_bytes
        self._comes(sent, user, 1)
        self._ledger.room.take(user, sent.origin, size_bytes)
        try:
            yield
        except LbdError:
            self._ledger.room.take(user, sent.origin, -size_bytes)
            raise
        finally:
            self._comes(sent, user, -1)

    def _comes(self, sent: Submission, user: str, sign: int) -> None:
        more = sign * sent.count
        self._coming += more
        add_count(self._coming_of_user, user, more)
        add_count(self._coming_of_host, sent.origin, more)
        add_count(self._coming_conditions, user, sign * conditions_of(sent))
        self._jobs.lists.comes(user, sent.origin, sign * count_names(sent))

    def _user(self, sent: Submission | JobRow) -> str:
        return share_of(sent.user, sent.uid, by_uid=self._by_uid)


def add_count(counts: dict[str, int], key: str, more: int) -> None:
    """Adds to a count; drops counts of zero."""
    if found := counts.get(key, 0) + more:
        counts[key] = found
    else:
        counts.pop(key, None)


def conditions_of(sent: Submission) -> int:
    return sent.count * len(sent.after.split())


def count_names(sent: Submission | JobRow) -> int:
    """Returns how many names in the lists of these jobs count."""
    hosts = sent.excluded if isinstance(sent, Submission) else sent.barred
    return counted(len(hosts), read_needs_text(sent.needs))
