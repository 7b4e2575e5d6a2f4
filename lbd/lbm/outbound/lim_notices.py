"""Notices to the LIM of jobs that start and end here, gathered.

A notice wakes another process; for a command of a millisecond that would cost as much as the
command. A job that ends before its start was told is not told of at all, unless the LIM knows of
it already because it chose the place (then its end takes the charge away).
"""

import asyncio

from lbd.local.json_socket import Json, JsonClient

LINGER_S = 0.03


class LimNotes:
    """Start and end notices, sent together after a moment or when `flush` is called."""

    def __init__(self, lim: JsonClient) -> None:
        self._lim = lim
        self._starts: dict[str, Json] = {}
        self._reported: dict[str, Json] = {}  # starts that the LIM knows of
        self._placed: dict[str, Json] = {}
        self._others: list[Json] = []
        self._timer: asyncio.TimerHandle | None = None

    def placed(self, job: str, question: Json) -> None:
        """A place that the user named: nothing to decide for the LIM, but it is to count it."""
        self._placed[job] = question
        self._wait()

    def started(self, job: str, notice: Json) -> None:
        self._starts[job] = {"op": "job", "event": "start", "job": job, **notice}
        self._wait()

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
        self._starts = {**self._reported, **self._starts}
        self._wait()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self.flush)

    def flush(self) -> None:
        """Send what has gathered; to be called before the LIM is asked for a decision."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        notices = [*self._others, *self._placed.values(), *self._starts.values()]
        self._reported.update(self._starts)
        self._others.clear()
        self._placed.clear()
        self._starts.clear()
        if notices:
            self._lim.notify(*notices)
