"""Notices to the LIM of jobs that start and end here, gathered.

A notice wakes another process; for a command of a millisecond that would cost as much as the
command. A job that ends before its start was told is not told of at all, unless the LIM knows of
it already because it chose the place (then its end takes the charge away).
"""

import asyncio
from collections.abc import Callable

from lbd.local.json_socket import Json, JsonClient

LINGER_S = 0.03


class LimNotes:
    """Start and end notices, sent together after a moment or when `flush` is called."""

    def __init__(self, lim: JsonClient) -> None:
        self._lim = lim
        self._starts: dict[str, tuple[float, Json]] = {}  # since when
        self._reported: dict[str, Json] = {}  # starts that the LIM knows of
        self._placed: dict[str, tuple[float, Callable[[], Json]]] = {}
        self._others: list[Json] = []
        self._timer: asyncio.TimerHandle | None = None

    def placed(self, job: str, question: Callable[[], Json]) -> None:
        """A place that the user named: nothing to decide for the LIM, but it is to count it."""
        self._placed[job] = self._wait(), question

    def started(self, job: str, notice: Json) -> None:
        self._starts[job] = self._wait(), {"op": "job", "event": "start", "job": job, **notice}

    def ended(self, job: str, host: str, *, charged: bool) -> None:
        """`charged`: the LIM of this host picked the place, so it must hear of the end."""
        reported = self._starts.pop(job, None) is None
        self._reported.pop(job, None)
        if self._placed.pop(job, None) is not None:
            return
        if reported or charged:
            self._others.append({"op": "job", "event": "end", "job": job, "host": host})
            self._wait()

    def trouble(self, host: str, reason: str) -> None:
        self._others.append({"op": "trouble", "host": host, "reason": reason})
        self.flush()

    def again(self) -> None:
        """The LIM was restarted: tell it of every job that runs."""
        since_s = self._wait()
        again = {job: (since_s, notice) for job, notice in self._reported.items()}
        self._starts = {**again, **self._starts}

    def _wait(self) -> float:
        """Returns the time by the loop's clock."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(LINGER_S, self._send_old)
        return loop.time()

    def _send_old(self) -> None:
        """Most of what is younger has ended before we are called again."""
        self._timer = None
        self._send(asyncio.get_running_loop().time() - LINGER_S)
        if self._placed or self._starts:
            self._wait()

    def flush(self) -> None:
        """Send what has gathered; to be called before the LIM is asked for a decision."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send(asyncio.get_running_loop().time())

    def _send(self, until_s: float) -> None:
        """What has begun by then, and what has ended."""
        placed = [job for job, (since_s, _) in self._placed.items() if since_s <= until_s]
        starts = [job for job, (since_s, _) in self._starts.items() if since_s <= until_s]
        begun = {job: self._starts.pop(job)[1] for job in starts}
        self._reported.update(begun)
        notices, self._others = self._others, []
        notices += [self._placed.pop(job)[1]() for job in placed]
        notices += begun.values()
        if notices:
            self._lim.notify(*notices)
