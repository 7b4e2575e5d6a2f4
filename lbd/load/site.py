"""Loads that the site measures itself: what `load.site_command` prints, checked.

Lines of `name value`: users logged in, the use of a GPU, what a licence server says. As
`load.index = "site:NAME"` one of them is the index that hosts are chosen by, so it is to be in the
index's own unit: 0 is idle, 1 is as busy as one task a core makes it.

Nothing of it is believed unchecked, and nothing of it can stop a LIM: one wrong line makes all of
that run's output worthless, and what the command said before holds until it is old. Then, and on
hosts that have no such command, the smoothed index stands in.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from lbd.config.schema import INDICES, SITE, LoadConfig
from lbd.text.needs import is_name
from lbd.text.one_line import one_line

OUTPUT_BYTES_MAX = 4096
LOADS_MAX = 8
VALUE_MAX = 1e6
LATE_PERIODS = 3  # so many runs may fail before its loads are too old to be used
SHOWN_CHARS = 60


def loads_in(output: bytes) -> dict[str, float]:
    """Raises ValueError with what is wrong with it."""
    if len(output) > OUTPUT_BYTES_MAX:
        raise ValueError(f"printed more than {OUTPUT_BYTES_MAX} bytes")
    found: dict[str, float] = {}
    for line in output.decode(errors="replace").splitlines():
        if not line.strip():
            continue
        name, _, value = line.strip().partition(" ")
        if not is_name(name) or not (load := as_load(value)) >= 0:
            shown = one_line(line, SHOWN_CHARS)
            raise ValueError(f'printed "{shown}", which is not a name and a number of at least 0')
        found[name] = load
    if not found:
        raise ValueError("printed nothing")
    if len(found) > LOADS_MAX:
        raise ValueError(f"printed more than {LOADS_MAX} loads")
    return found


def as_load(text: str) -> float:
    """Returns NaN for what cannot be a load."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if value <= VALUE_MAX else math.nan


class SiteLoads:
    """What the command said last, while that is fresh enough to be used."""

    def __init__(self, load: LoadConfig) -> None:
        self._keep_s = LATE_PERIODS * load.site_period_s + load.site_timeout_s
        self._loads: dict[str, float] = {}
        self._said_at_s = -math.inf

    def said(self, loads: dict[str, float], now_s: float) -> None:
        self._loads, self._said_at_s = loads, now_s

    def at(self, now_s: float) -> Mapping[str, float]:
        return self._loads if now_s - self._said_at_s <= self._keep_s else {}


def wanted(load: LoadConfig) -> str:
    """The load of the site's own that the index is to be; "" if it is none."""
    return load.index.removeprefix(SITE) if load.index.startswith(SITE) else ""


def fallen_back(load: LoadConfig, loads: Mapping[str, float]) -> LoadConfig:
    """Returns the same configuration with an index that is available here."""
    return load if wanted(load) in ("", *loads) else replace(load, index=INDICES[0])


def pause_s(load: LoadConfig, failures: int) -> float:
    """From the end of one run to the next: a command that fails is run less and less often."""
    return float(load.site_period_s * min(2 ** min(failures, 8), max(1.0, 60 / load.site_period_s)))
