"""Loads that the site measures itself: the checked output of `load.site_command`.

Its lines are `name value`: users logged in, the use of a GPU, what a licence server says. With
`load.index = "site:NAME"` one of them is the index for choosing hosts, so it must be in the index's
own unit: 0 is idle, 1 is as busy as one task per core makes a host.

The output is always checked, and cannot stop a LIM: one wrong line invalidates the whole output of
that run, and the previous values hold until they are too old. Then, and on hosts without such a
command, the smoothed index is used instead.
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
LATE_PERIODS = 3  # as many runs may fail before the loads are too old
SHOWN_CHARS = 60


def loads_in(output: bytes) -> dict[str, float]:
    """Parses the output. Raises ValueError that says what is wrong with it."""
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
    """The command's last values, while they are fresh enough."""

    def __init__(self, load: LoadConfig) -> None:
        self._keep_s = LATE_PERIODS * load.site_period_s + load.site_timeout_s
        self._loads: dict[str, float] = {}
        self._said_at_s = -math.inf

    def said(self, loads: dict[str, float], now_s: float) -> None:
        self._loads, self._said_at_s = loads, now_s

    def at(self, now_s: float) -> Mapping[str, float]:
        return self._loads if now_s - self._said_at_s <= self._keep_s else {}


def wanted(load: LoadConfig) -> str:
    """Returns the name of the site load that is used as the index; "" if none is."""
    return load.index.removeprefix(SITE) if load.index.startswith(SITE) else ""


def fallen_back(load: LoadConfig, loads: Mapping[str, float]) -> LoadConfig:
    """Returns the same configuration with an index that is available here."""
    return load if wanted(load) in ("", *loads) else replace(load, index=INDICES[0])


def pause_s(load: LoadConfig, failures: int) -> float:
    """Returns the time between two runs: a failing command runs less and less often."""
    return float(load.site_period_s * min(2 ** min(failures, 8), max(1.0, 60 / load.site_period_s)))
