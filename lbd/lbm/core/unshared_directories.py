"""Which hosts do not share which directories, as they said lately. Pure.

What is not shared there has nothing shared below it, as far as it is one file system here: so one
refusal speaks for a whole tree, but "/" not for what is mounted in it. Each user's own, for one may
be let in where another is not. Forgotten after a while: a mount may come back.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from lbd.model import HostId

Place = tuple[int, int, bytes]  # user, device, directory


@dataclass(slots=True)
class Unshared:
    kept_s: float
    limit: int = 4096
    _until: "OrderedDict[tuple[Place, HostId], float]" = field(default_factory=OrderedDict)
    _hosts: dict[Place, set[HostId]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._until)

    def note(self, uid: int, device: int, directory: bytes, host: HostId, now_s: float) -> None:
        """This host has just said that it is another one there, or none."""
        place = (uid, device, directory.rstrip(b"/"))
        self._until[place, host] = now_s + self.kept_s
        self._until.move_to_end((place, host))
        self._hosts.setdefault(place, set()).add(host)
        if len(self._until) > self.limit:
            self._drop_oldest()

    def hosts(self, uid: int, device: int, directory: bytes, now_s: float) -> set[HostId]:
        """Those that need not be asked about it."""
        while self._until and next(iter(self._until.values())) <= now_s:
            self._drop_oldest()
        found: set[HostId] = set()
        path = directory.rstrip(b"/")
        while self._hosts:
            found |= self._hosts.get((uid, device, path), set())
            if not path:
                break
            path = path.rpartition(b"/")[0]
        return found

    def shares(self, uid: int, device: int, directory: bytes, host: HostId) -> None:
        """It has just run a command there: whatever it said before is over."""
        path = directory.rstrip(b"/")
        while self._until:
            place = (uid, device, path)
            if self._until.pop((place, host), None) is not None:
                self._forget(place, host)
            if not path:
                return
            path = path.rpartition(b"/")[0]

    def _drop_oldest(self) -> None:
        (place, host), _ = self._until.popitem(last=False)
        self._forget(place, host)

    def _forget(self, place: Place, host: HostId) -> None:
        self._hosts[place].discard(host)
        if not self._hosts[place]:
            del self._hosts[place]
