"""Logs what a LIM's decisions say, with a limit on the lines about each host.

A host that comes and goes a thousand times a second would fill the log, and lines about others
would be lost.
"""

import logging
import time

from lbd.lim.core.events import Log
from lbd.local.rate_limit import Rates

log = logging.getLogger("lbd.lim")

LINES_PER_S, LINES_AT_ONCE = 1.0, 100.0  # about one host


class Lines:
    """The rate limits of one process."""

    def __init__(self) -> None:
        self._rates = Rates(LINES_PER_S, LINES_AT_ONCE)

    def say(self, line: Log) -> None:
        if line.peer and self._rates.turn_s(line.peer, time.monotonic(), 0.0) is None:
            return
        level = logging.WARNING if line.warning else logging.INFO
        log.log(level, line.text, extra={"peer": line.peer})


LINES = Lines()
