"""How a host that no configuration names finds its cluster: by the address in its own, and by the
hosts that it knew before it was started again, for that address may be gone for good. Pure."""

from collections.abc import Iterable, Mapping

from lbd.lim.core.messages import Member
from lbd.lim.core.table import Entry
from lbd.model import HostId


class WaysIn:
    def __init__(self, target: str, remembered: Iterable[Member] = ()) -> None:
        self.target = target  # "address:port", or ""
        self._answered_by = HostId("")  # who was there
        self._remembered = {member.name: member for member in remembered}

    def answered(self, name: HostId) -> None:
        self._answered_by = name

    def is_open(self, known: Mapping[HostId, Entry], *, accepted: bool) -> bool:
        """Whether to knock at the address: while nobody has taken us in.

        And while the host that did is gone: when it is back it may know nobody, as no
        configuration names us, and it may be all that holds the others together.
        """
        entry = known.get(self._answered_by)
        return bool(self.target) and not (accepted and entry is not None and not entry.left)

    def has_more(self, known: Mapping[HostId, Entry], *, accepted: bool) -> bool:
        """Whether there are hosts behind it that may be up and that nobody has told us of yet."""
        is_open = self.is_open(known, accepted=accepted)
        return is_open or any(name not in known for name in self._remembered)

    def take(self, count: int, known: Mapping[HostId, Entry], *, accepted: bool) -> list[Member]:
        """The next of those that nobody has told us of: each again and again while nobody has
        taken us in, and once more after that, or two parts of a cluster might each think that they
        are all of it."""
        missing = [member for name, member in self._remembered.items() if name not in known]
        taken, later = missing[:count], missing[count:]
        kept = later if accepted else later + taken
        self._remembered = {member.name: member for member in kept}
        return taken
