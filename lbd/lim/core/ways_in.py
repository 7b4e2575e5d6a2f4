"""How a host that no configuration lists finds its cluster: through its configured address, and
through the hosts it knew before its restart, since that address may be gone for good. Pure."""

from collections.abc import Iterable, Mapping

from lbd.lim.core.messages import Member
from lbd.lim.core.table import Entry
from lbd.model import HostId


class WaysIn:
    def __init__(self, target: str, remembered: Iterable[Member] = ()) -> None:
        self.target = target  # "address:port", or ""
        self._answered_by = HostId("")  # the host that was there
        self._remembered = {member.name: member for member in remembered}

    def answered(self, name: HostId) -> None:
        self._answered_by = name

    def remembers(self, name: HostId) -> bool:
        return name in self._remembered

    def forget(self, name: HostId) -> None:
        self._remembered.pop(name, None)

    def is_open(self, known: Mapping[HostId, Entry], *, accepted: bool) -> bool:
        """Whether to try the address: while no host has taken us in.

        Also while the host that did is gone: when it is back it may know no host, as no
        configuration lists us, and it may be the only link between the others.
        """
        entry = known.get(self._answered_by)
        return bool(self.target) and not (accepted and entry is not None and not entry.left)

    def has_more(self, known: Mapping[HostId, Entry], *, accepted: bool) -> bool:
        """Whether there may be hosts up that we have not been told of yet."""
        is_open = self.is_open(known, accepted=accepted)
        return is_open or any(name not in known for name in self._remembered)

    def take(self, count: int, known: Mapping[HostId, Entry], *, accepted: bool) -> list[Member]:
        """Returns the next remembered hosts that we have not been told of. Each is taken repeatedly
        until some host has taken us in, and once more after that; otherwise two parts of a cluster
        might each believe that they are the whole."""
        missing = [member for name, member in self._remembered.items() if name not in known]
        taken, later = missing[:count], missing[count:]
        kept = later if accepted else later + taken
        self._remembered = {member.name: member for member in kept}
        return taken
