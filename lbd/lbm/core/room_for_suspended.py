"""Where else a suspended command could run. Pure.

Room on other hosts only counts once it has lasted: a slot or a resource that has just become free
goes to a job that waits in the queue, and a moved command would only take that job's place. So they
leave one by one: two that go for one free slot would lose what one of them has done.
"""

from collections import deque
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from lbd.model import Facts, HostId, Needs
from lbd.policy.needs import jobs_now, unmet

LASTING_LOOKS = 5  # after so many looks, room has lasted
AS_MANY_AS_SLOTS = 1 << 30
Look = tuple[bool, Mapping[HostId, int], Mapping[HostId, Facts]]


@dataclass(slots=True)
class RoomElsewhere:
    """Room on other hosts as the LIM knows it. `facts` are only requested while a command needs
    more than slots."""

    others_free: bool = False  # whether another host would take a command
    room: Mapping[HostId, int] = field(default_factory=dict)  # free slots of the willing hosts
    facts: Sequence[Mapping[HostId, Facts]] = ()  # of those hosts, at each look that counts
    _lately: deque[Look] = field(default_factory=deque)

    def look(
        self,
        others_free: bool,
        room: Mapping[HostId, int],
        facts: Mapping[HostId, Facts],
        step_s: float,
    ) -> None:
        self._lately.append((others_free, room, facts))
        looks = max(2, round(min(LASTING_LOOKS, step_s)))
        while len(self._lately) > looks:
            self._lately.popleft()
        lasting = list(self._lately) if len(self._lately) == looks else []
        self.others_free = bool(lasting) and all(free for free, _, _ in lasting)
        self.room = {
            host: min(there.get(host, 0) for _, there, _ in lasting) for host in room if lasting
        }
        self.facts = [there for _, _, there in lasting]

    def is_taken(self) -> None:
        """Notes that a command leaves for one of those hosts: for others, room counts again once it
        has lasted beside that one."""
        self._lately.clear()
        self.others_free, self.room, self.facts = False, {}, ()

    def takes(self, host: HostId, slots: int, needs: Needs) -> int:
        """How many such commands the host has had room for. A host whose resources are not known
        takes none that needs more than slots."""
        count = self.room.get(host, 0) // max(1, slots)
        if not needs:
            return count
        if not self.facts or any(host not in there for there in self.facts):
            return 0
        return min(count, *(room_by_needs(needs, there[host]) for there in self.facts))

    def beside(
        self, own: HostId, slots: int, needs: Needs, excluded: Set[HostId] = frozenset()
    ) -> bool:
        """Whether a host other than this one and the excluded ones would take such a command."""
        if not (self.others_free and (needs or excluded)):
            return self.others_free
        others = self.room.keys() - {own, *excluded}
        return any(self.takes(host, slots, needs) for host in others)


def room_by_needs(needs: Needs, facts: Facts) -> int:
    """For how many commands the resources other than slots suffice."""
    if unmet(needs, facts) is not None:
        return 0
    most = jobs_now(needs, facts)
    return AS_MANY_AS_SLOTS if most is None else most
