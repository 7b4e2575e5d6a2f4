"""What the LIM is asked about a command on its way out, and its answers as events."""

from lbd.errors import Unavailable
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Job
from lbd.lbm.outbound.context import OutboundContext
from lbd.local.json_socket import Json, Refusal
from lbd.model import HostId, Needs, Verdict
from lbd.text.needs_words import needs_text
from lbd.text.placement_phrases import LoadsSeen, why_placed


def in_json(question: e.Question, job: Job, cpu_s: float, needs: Needs, *, report: bool) -> Json:
    """`cpu_s`: that it will take, 0 = nobody knows; `report`: its user wants to know why."""
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


async def ask_place(
    home: OutboundContext, asked: Json, question: e.Question, insist: bool, not_here: str = ""
) -> e.Event:
    """`asked`: the question, in full. `not_here`: why its user lets it not stay."""
    home.notes.flush()
    may_be_no = insist or question.must_leave or bool(asked["needs"])
    try:
        answer = await home.ask_lim(asked, must=insist, may_be_no=may_be_no)
        own = HostId(home.config.host.name)
        may_stay = not (question.must_leave or own in question.excluded)
        said = lim_said(answer, own if may_stay else "", not_here)
    except Refusal as refusal:
        return e.LimRefused(str(refusal))
    except Unavailable as problem:
        return e.LimSilent(str(problem), home.known_address(question.wanted))
    if said.verdict is Verdict.THERE:
        home.is_at(said.host, said.address)
    return said


async def ask_slots(
    home: OutboundContext, wanted: HostId | None, least: int, insist: bool
) -> e.Event:
    """`wanted`: the host that the user has named; `least`: the slots that the command needs."""
    try:
        asked: Json = {"op": "status", "slots": least}
        answer = await home.ask_lim(asked, must=insist, may_be_no=True)
        return e.SlotsKnown(slots_of(answer, HostId(home.config.host.name)))
    except Refusal as refusal:
        return e.LimRefused(str(refusal))
    except Unavailable as problem:
        return e.LimSilent(str(problem), home.known_address(wanted))


def lim_said(answer: Json, own: str = "", not_here: str = "") -> e.LimSaid:
    """`own`: this host, if the command may stay. Raises Unavailable."""
    try:
        verdict = Verdict(answer.get("verdict"))
    except ValueError:
        raise Unavailable("the LIM's answer is not valid") from None
    host, address = HostId(str(answer.get("host"))), str(answer.get("address") or "")
    reason = str(answer.get("reason"))
    phrase = ""
    if "load_here" in answer:
        seen = loads_seen(answer, host, own)
        phrase = why_placed(reason, str(answer.get("algorithm")), seen, not_here)
    return e.LimSaid(verdict, host, address, reason, phrase)


def loads_seen(answer: Json, chosen: str, own: str) -> LoadsSeen:
    """`chosen` and `own`: hosts."""
    given = answer.get("candidates")
    rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
    loads = {row.get("name"): number(row.get("load")) for row in rows}
    now, threshold, gain = (
        number(answer.get(name)) for name in ("load_here", "local_threshold", "min_gain")
    )
    return LoadsSeen(now, threshold, gain, loads.get(chosen), loads.get(own))


def number(given: object) -> float | None:
    return float(given) if isinstance(given, int | float) else None


def slots_of(status: Json, own: HostId) -> dict[HostId, tuple[int, int]]:
    """Of each host that is up, as the LIM says: all, and those free. Raises Unavailable."""
    found: dict[HostId, tuple[int, int]] = {}
    hosts = status.get("hosts")
    for host in hosts if isinstance(hosts, list) else []:
        slots = host["slots"]
        if host["state"] == "up":
            found[HostId(host["name"])] = slots["total"], slots["total"] - slots["used"]
    if own not in found:
        raise Unavailable("the LIM does not know yet how many slots this host has")
    return found
