"""Past loads, as this host's LIM remembers them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.console.daemons import Daemons
from lbd.console.reply import number, table

HOSTS_AT_ONCE = 50  # the LIM's own limit
POINTS_MAX = 10_000
NAN = math.nan


@dataclass(frozen=True, slots=True)
class PastLoads:
    """Means over steps of equal length, oldest first; NaN where nothing is known."""

    step_s: float
    until_s: float  # UNIX seconds, the end of the last step
    hosts: dict[str, tuple[float, ...]]

    def of(self, host: str) -> tuple[float, ...]:
        return self.hosts.get(host, ())


NOTHING = PastLoads(1.0, 0.0, {})


def ask_past_loads(daemons: Daemons, hosts: Sequence[str], span: str) -> PastLoads:
    """Asks for loads over `span`: hour, day or month. Raises LbdError."""
    found = NOTHING
    for at in range(0, len(hosts), HOSTS_AT_ONCE):
        names = list(hosts[at : at + HOSTS_AT_ONCE])
        reply = daemons.lim({"op": "loads", "span": span, "hosts": names})
        loads = table(reply, "loads")
        new = {name: points for name in names if (points := points_of(loads.get(name)))}
        found = PastLoads(number(reply, "step_s"), number(reply, "until"), found.hosts | new)
    return found


def points_of(given: object) -> tuple[float, ...]:
    points = given[-POINTS_MAX:] if isinstance(given, list) else []
    return tuple(float(one) if isinstance(one, int | float) else NAN for one in points)
