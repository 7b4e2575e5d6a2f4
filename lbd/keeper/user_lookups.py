"""Orders that wait for the user database before they may start.

The database may be remote (LDAP) and may not answer, so a child asks it and the keeper never waits.
Messages about a waiting command are kept and handled once it has started.
"""

import os
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field

from lbd.keeper.child import Parent, leave_keeper
from lbd.keeper.gate import Gate
from lbd.keeper.side_child import SideChild
from lbd.keeper.spawn_order import Order

LOOK_S = 10.0
LOOKS = 32  # at the same time
ANSWER_BYTES = 512  # LEFT_MAX groups
ANSWERED = b"."  # followed by the reason for a refusal, if any


@dataclass(slots=True)
class Waiting:
    """An order, its descriptors, and the messages about it since: tag, fields, time."""

    order: Order
    descriptors: list[int]
    later: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Look:
    """A child that looks up one user, and its deadline."""

    user: tuple[int, ...]
    child: SideChild
    until_s: float


class UserLooks:
    def __init__(self, parent: Parent, gate: Gate) -> None:
        self._parent, self._gate = parent, gate
        self._looks: dict[int, Look] = {}  # by the descriptor that reports
        self.waiting: dict[str, Waiting] = {}  # by job

    @property
    def pids(self) -> set[int]:
        return {look.child.pid for look in self._looks.values()}

    @property
    def descriptors(self) -> Container[int]:
        """Descriptors to pass to `hear` when readable."""
        return self._looks.keys()

    def due_s(self) -> list[float]:
        return [look.until_s for look in self._looks.values()] if self._looks else []

    def look(self, user: tuple[int, ...]) -> int | None:
        """Starts a look-up of that user. Returns the descriptor that will report, None if one is
        under way. Raises OSError if it cannot be started."""
        if any(look.user == user for look in self._looks.values()):
            return None
        if len(self._looks) >= LOOKS:
            raise BlockingIOError("the user database does not answer")
        child = SideChild(lambda answer: self._ask(answer, user))
        self._looks[child.pipe] = Look(user, child, time.monotonic() + LOOK_S)
        return child.pipe

    def _ask(self, answer: int, user: tuple[int, ...]) -> None:
        """Runs in the child."""
        leave_keeper(self._parent, answer)
        os.write(answer, ANSWERED + self._gate.look(user).encode())

    def hear(self, descriptor: int) -> tuple[int, ...]:
        """Handles a descriptor that reports, or is late, and returns its user. The gate then has
        the answer, if there was one."""
        look = self._looks.pop(descriptor)
        said = b""
        with suppress(BlockingIOError):  # late
            said = os.read(descriptor, ANSWER_BYTES)
        look.child.close()
        if said:
            self._gate.learn(look.user, said.removeprefix(ANSWERED).decode(), time.monotonic())
        return look.user

    def late(self) -> list[int]:
        """Returns the descriptors of look-ups that the database did not answer in time."""
        if not self._looks:
            return []
        now_s = time.monotonic()
        return [one for one, look in self._looks.items() if now_s >= look.until_s]
