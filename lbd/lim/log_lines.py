"""Logs what a LIM's decisions say, with a limit on the lines about each host, and on those that
each host's messages cause.

A host that comes and goes, or drains others, a thousand times a second would fill the log, and
lines about others would be lost. What is left out is counted in a later line.
"""

import logging
from collections import Counter

from lbd.lim.core.events import Log
from lbd.local.rate_limit import Rates

log = logging.getLogger("lbd.lim")

LINES_PER_S, LINES_AT_ONCE = 0.1, 100.0  # of one subject


class Lines:
    def __init__(self) -> None:
        self._rates = Rates(LINES_PER_S, LINES_AT_ONCE)
        self._left_out: Counter[str] = Counter()

    def say(self, line: Log, now_s: float, sender: str = "") -> None:
        """`sender`: the host whose message is the reason for the line."""
        subject = f"host {line.peer}" if line.peer else f"what host {sender} has sent"
        if line.peer or sender:
            if not self._has_turn(subject, now_s):
                self._left_out[subject] += 1
                return
            self._count(subject)
        level = logging.WARNING if line.warning else logging.INFO
        log.log(level, line.text, extra={"peer": line.peer})

    def say_left_out(self, now_s: float) -> None:
        """To be called now and then: a host may stop as suddenly as it began."""
        for subject in list(self._left_out):
            if self._has_turn(subject, now_s):
                self._count(subject)

    def _has_turn(self, subject: str, now_s: float) -> bool:
        return self._rates.turn_s(subject, now_s, 0.0) is not None

    def _count(self, subject: str) -> None:
        if count := self._left_out.pop(subject, 0):
            log.warning("%d more lines about %s were left out", count, subject)


LINES = Lines()  # of this process
