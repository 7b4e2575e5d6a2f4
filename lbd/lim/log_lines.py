"""Logs what a LIM's decisions say, with a limit on the lines that each host's messages cause, and
on other lines about each host. Warnings have a limit of their own.

A host that comes and goes, or drains others, a thousand times a second would fill the log, and
lines about others would be lost. What is left out is counted in a later line.
"""

import logging
from collections import Counter

from lbd.lim.core.events import Log
from lbd.local.rate_limit import Rates

log = logging.getLogger("lbd.lim")

LINES_PER_S, LINES_AT_ONCE = 0.1, 100.0  # of one key
Key = tuple[str, str]  # what kind of lines, about what


class Lines:
    def __init__(self) -> None:
        self._rates = Rates(LINES_PER_S, LINES_AT_ONCE)
        self._left_out: Counter[Key] = Counter()

    def say(self, line: Log, now_s: float, sender: str = "") -> None:
        """`sender`: the host whose message is the reason for the line."""
        level = logging.WARNING if line.warning else logging.INFO
        subject = f"what host {sender} has sent" if sender else f"host {line.peer}"
        key = ("warnings" if level >= logging.WARNING else "lines", subject)
        if line.peer or sender:
            if not self._has_turn(key, now_s):
                self._left_out[key] += 1
                return
            self._count(key)
        log.log(level, line.text, extra={"peer": line.peer})

    def say_left_out(self, now_s: float) -> None:
        """To be called now and then: a host may stop as suddenly as it began."""
        for key in list(self._left_out):
            if self._has_turn(key, now_s):
                self._count(key)

    def _has_turn(self, key: Key, now_s: float) -> bool:
        return self._rates.turn_s(key, now_s, 0.0) is not None

    def _count(self, key: Key) -> None:
        if count := self._left_out.pop(key, 0):
            log.warning("%d more %s about %s were left out", count, *key)


LINES = Lines()  # of this process
