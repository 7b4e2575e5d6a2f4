"""What the user of a plain command reads when the owner of its host suspends it. Pure."""

from dataclasses import dataclass

LINES_MAX = 20  # for one command: owners come and go


@dataclass(slots=True)
class Pauses:
    are_wanted: bool = False  # on a terminal, or with -v
    still_on: str = ""  # the host on which it is suspended
    lines: int = 0

    def line(self, host: str, why: str) -> str:
        """Returns a line when it is suspended, and when it continues (`why` is empty); otherwise
        ""."""
        changed, self.still_on = (self.still_on == host) is not bool(why), host if why else ""
        if not (changed and self.are_wanted) or self.lines >= LINES_MAX:
            return ""
        self.lines += 1
        more = "; no more of this is said" if self.lines == LINES_MAX else ""
        return f"{host}: suspended: {why}{more}" if why else f"{host}: goes on{more}"
