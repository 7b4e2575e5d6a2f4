"""This host's LIM as the commands of its users need it: questions and notices."""

import asyncio
import math
import time
from collections.abc import Callable, Collection

from lbd.errors import Unavailable
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Job
from lbd.local.json_client import JsonClient
from lbd.local.json_socket import Json, Refusal
from lbd.local.starting import LOOK_S, returns
from lbd.model import HostId, Needs, Verdict
from lbd.policy.ranking import as_low_as
from lbd.text.needs_words import needs_text
from lbd.text.placement_phrases import (
    SAYS_LOADS,
    HostSeen,
    LoadsSeen,
    hosts_seen,
    why_placed,
)

LINGER_S = 0.03
ASK_TIMEOUT_S = 1.0
HELD_TIMEOUT_S = 3.0  # a LIM that has just started says no only once it has heard from the others
LIM_REST_S = 5.0  # how long a LIM that did not answer is left alone
HEARD_S = 3.0  # it gets a report about our jobs every second
ADDRESS_KEPT_S = 5.0


class LimNotes:
    """Start and end notices, sent together after a moment or when `flush` is called.

    A notice wakes another process; for a command of a millisecond that would cost as much as the
    command. A job that ends before its start was sent is not reported at all, unless the LIM knows
    of it already because it chose the place (then its end takes the charge away).
    """

    def __init__(self, lim: JsonClient) -> None:
        self._lim = lim
        self._starts: dict[str, tuple[float, Json]] = {}  # time, and notice
        self._reported: dict[str, Json] = {}  # starts that the LIM knows of
        self._placed: dict[str, tuple[float, Callable[[], Json]]] = {}
        self._others: list[Json] = []
        self._timer: asyncio.TimerHandle | None = None

    def placed(self, job: str, question: Callable[[], Json]) -> None:
        """Notes a place that the user named: the LIM has nothing to decide, but counts it."""
        self._placed[job] = self._wait(), question

    def started(self, job: str, notice: Json) -> None:
        self._starts[job] = self._wait(), {"op": "job", "event": "start", "job": job, **notice}

    def ended(self, job: str, host: str, *, charged: bool) -> None:
        """`charged`: the LIM of this host picked the place, so it must be told of the end."""
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
        """Repeats the starts of all running jobs, because the LIM was restarted."""
        since_s = self._wait()
        again = {job: (since_s, notice) for job, notice in self._reported.items()}
        self._starts = {**again, **self._starts}

    def _wait(self) -> float:
        """Starts the timer. Returns the time by the loop's clock."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(LINGER_S, self._send_old)
        return loop.time()

    def _send_old(self) -> None:
        """Sends what has waited long enough; most of the rest ends before we are called again."""
        self._timer = None
        self._send(asyncio.get_running_loop().time() - LINGER_S)
        if self._placed or self._starts:
            self._wait()

    def flush(self) -> None:
        """Sends what has gathered; call it before the LIM is asked for a decision."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._send(asyncio.get_running_loop().time())

    def _send(self, until_s: float) -> None:
        """Sends the starts until then, and all ends."""
        placed = [job for job, (since_s, _) in self._placed.items() if since_s <= until_s]
        starts = [job for job, (since_s, _) in self._starts.items() if since_s <= until_s]
        begun = {job: self._starts.pop(job)[1] for job in starts}
        self._reported.update(begun)
        notices, self._others = self._others, []
        notices += [self._placed.pop(job)[1]() for job in placed]
        notices += begun.values()
        if notices:
            self._lim.notify(*notices)


class LimQuestions:
    """Questions about commands on their way out, with the answers as events."""

    def __init__(self, lim: JsonClient, notes: LimNotes, own: HostId) -> None:
        self._lim, self._notes, self._own = lim, notes, own
        self._rests_until_s = 0.0
        self.heard_s = -math.inf
        # The addresses of hosts' LBMs as the LIM said, and until when they need no question.
        self._addresses: dict[HostId, tuple[str, float]] = {}

    async def place(
        self, asked: Json, question: e.Question, insist: bool, not_here: str = "",
        unwanted: Collection[HostId] = (),
    ) -> e.Event:  # fmt: skip
        """`asked`: the full question. `not_here`: why its user does not let it stay; `unwanted`:
        the hosts that the user has excluded."""
        self._notes.flush()
        may_be_no = insist or question.must_leave or bool(asked["needs"])
        try:
            answer = await self.ask(asked, must=insist, may_be_no=may_be_no)
            may_stay = not (question.must_leave or self._own in question.excluded)
            left_out = question.excluded.difference(unwanted)
            if not may_stay:
                left_out |= {self._own}
            said = lim_said(answer, self._own if may_stay else "", not_here, left_out)
        except Refusal as refusal:
            return e.LimRefused(str(refusal))
        except Unavailable as problem:
            return e.LimSilent(str(problem), self.known_address(question.wanted))
        if said.verdict is Verdict.THERE:
            until_s = time.monotonic() + ADDRESS_KEPT_S
            self._addresses[said.host] = said.address, until_s
        return said

    async def slots(self, wanted: HostId | None, least: int, insist: bool) -> e.Event:
        """`wanted`: the host that the user has named; `least`: the slots that the command needs."""
        try:
            asked: Json = {"op": "status", "slots": least}
            answer = await self.ask(asked, must=insist, may_be_no=True)
            return e.SlotsKnown(slots_of(answer, self._own))
        except Refusal as refusal:
            return e.LimRefused(str(refusal))
        except Unavailable as problem:
            return e.LimSilent(str(problem), self.known_address(wanted))

    async def ask(self, question: Json, must: bool, *, may_be_no: bool) -> Json:
        """Asks where a command should go. `must`: there is no alternative, so the LIM is asked even
        if it did not answer a moment ago. `may_be_no`: the answer may be that no host can take it.
        Raises Unavailable and Refusal."""
        timeout_s = HELD_TIMEOUT_S if may_be_no else ASK_TIMEOUT_S
        if not must and time.monotonic() < self._rests_until_s:
            raise Unavailable(f"lim did not answer within {ASK_TIMEOUT_S:g} s")
        await self._returns(must)
        try:
            answer = await self._lim.call(question, timeout_s)
        except Unavailable:
            if self._lim.connected:
                self._rests_until_s = time.monotonic() + LIM_REST_S
            elif await self._returns(must):
                return await self._lim.call(question, timeout_s)
            raise
        self._rests_until_s = 0.0
        return answer

    async def _returns(self, must: bool) -> bool:
        """Waits for a LIM that is being restarted or, if it `must`, has just ended: usually another
        follows. Returns whether it is back."""
        while not self._lim.connected:
            is_new = time.monotonic() - self.heard_s < HEARD_S
            if not (returns(str(self._lim.path)) or (must and is_new)):
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def known_address(self, host: HostId | None) -> str:
        """Where its LBM is: what the LIM said recently, or last if it does not answer now."""
        if host is None:
            return ""
        address, until_s = self._addresses.get(host, ("", 0.0))
        now_s = time.monotonic()
        lately = self._lim.connected and now_s < until_s
        return address if lately or now_s < self._rests_until_s else ""

    def has_moved(self, host: HostId) -> None:
        """Forgets the address of a host that has, or may have, moved: it is asked for again."""
        self._addresses.pop(host, None)


def in_json(question: e.Question, job: Job, cpu_s: float, needs: Needs, *, report: bool) -> Json:
    """`cpu_s`: expected CPU time, 0 = unknown; `report`: its user wants to know why."""
    return {
        "op": "place",
        "job": job.id,
        "wanted": question.wanted,
        "user": job.user,
        "cpu_s": cpu_s,
        "excluded": sorted(question.excluded),
        "must_leave": question.must_leave,
        "must_stay": question.must_stay,
        "may_wait": question.may_wait,
        "needs": needs_text(needs),
        "report": report,
    }


def lim_said(
    answer: Json, own: str = "", not_here: str = "", left_out: Collection[str] = ()
) -> e.LimSaid:
    """`own`: this host, if the command may stay. `left_out`: hosts that the LIM was not asked
    about, which must not read as if the user had excluded them. Raises Unavailable."""
    try:
        verdict = Verdict(answer.get("verdict"))
    except ValueError:
        raise Unavailable("the LIM's answer is not valid") from None
    host, address = HostId(str(answer.get("host"))), str(answer.get("address") or "")
    reason = str(answer.get("reason"))
    phrase, algorithm = "", str(answer.get("algorithm"))
    found = {one.name: one for one in map(host_seen, rows_of(answer)) if one.name not in left_out}
    ours = found.pop(own, None)
    others = [found[host]] if host in found else list(found.values())
    loads = loads_seen(answer, host, own, left_out) if "load_here" in answer else None
    seen = hosts_seen(reason, algorithm, others, ours, loads)
    if loads is not None:
        phrase = why_placed(reason, algorithm, loads, not_here)
        if seen and reason not in SAYS_LOADS:
            phrase += f"; {seen}"
    return e.LimSaid(verdict, host, address, reason, phrase, seen)


def host_seen(row: Json) -> HostSeen:
    return HostSeen(str(row.get("name")), number(row.get("load")), str(row.get("why") or ""))


def rows_of(answer: Json) -> list[Json]:
    given = answer.get("candidates")
    return [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []


def loads_seen(answer: Json, chosen: str, own: str, left_out: Collection[str] = ()) -> LoadsSeen:
    """`chosen` and `own`: hosts. The load of `own` counts only if it could have been chosen."""
    loads = {
        row.get("name"): number(row.get("load"))
        for row in rows_of(answer)
        if row.get("name") == chosen or not row.get("why")
    }
    now, threshold, gain = (
        number(answer.get(name)) for name in ("load_here", "local_threshold", "min_gain")
    )
    willing = {
        str(row.get("name")): number(row.get("load"))
        for row in rows_of(answer)
        if not row.get("why") and row.get("name") not in (own, *left_out)
    }
    as_low = as_low_as(chosen, willing)
    return LoadsSeen(now, threshold, gain, loads.get(chosen), loads.get(own), as_low)


def number(given: object) -> float | None:
    return float(given) if isinstance(given, int | float) else None


def slots_of(status: Json, own: HostId) -> dict[HostId, tuple[int, int]]:
    """For each host that is up: all slots, and the free ones. Raises Unavailable."""
    found: dict[HostId, tuple[int, int]] = {}
    hosts = status.get("hosts")
    for host in hosts if isinstance(hosts, list) else []:
        slots = host["slots"]
        if host["state"] == "up":
            found[HostId(host["name"])] = slots["total"], slots["total"] - slots["used"]
    if own not in found:
        raise Unavailable("the LIM does not know yet how many slots this host has")
    return found
