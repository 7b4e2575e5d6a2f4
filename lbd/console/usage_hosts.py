"""Asks every host of the cluster about its ended jobs."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Generic, TypeVar

from lbd.console.daemons import Daemons
from lbd.console.reply import Json, number, table, tables, text
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import Refusal

AT_ONCE = 16
ANSWER_S = 15.0
PAGE = 1000
HOST_MAX = 100_000  # jobs of one host
HOST_S = 60.0  # after this, no further page of a host is asked for
PAGES_MORE = 4  # spare pages: a host sends a short page if it runs out of time or filters jobs out

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Gathered(Generic[Found]):
    answers: dict[str, Found]  # by host
    missing: dict[str, str]  # host -> why
    algorithm: str = ""  # in force now
    own: str = ""  # the host that asked


def gather(daemons: Daemons, ask: Callable[[str], Found]) -> Gathered[Found]:
    """Raises LbdError if no host answers, or if we may not ask."""
    status = daemons.lim({"op": "status"})
    hosts = [text(row, "name") for row in tables(status, "hosts")]

    def tried(host: str) -> Found | LbdError:
        try:
            return ask(host)
        except LbdError as problem:
            return problem

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(hosts, pool.map(tried, hosts), strict=True))
    for answer in found.values():
        if isinstance(answer, Refusal) and answer.code == "denied":
            raise answer
    missing = {host: str(why) for host, why in found.items() if isinstance(why, LbdError)}
    answers = {host: one for host, one in found.items() if not isinstance(one, LbdError)}
    if not answers:
        raise Unavailable("; ".join(dict.fromkeys(missing.values())))
    algorithm = text(table(status, "cluster"), "algorithm")
    return Gathered(answers, missing, algorithm, text(status, "self"))


def ask_host(daemons: Daemons, op: str, host: str, **more: object) -> Json:
    return daemons.lbm({"op": op, "of": host, **more}, ANSWER_S)


def pages(most: int) -> Iterator[int]:
    """Counts the pages that one host is asked for. Their number and time are limited, because a
    host that is slow, or sends only a few jobs at a time, would delay the whole answer."""
    until_s = monotonic() + HOST_S
    for page in range(most):
        if monotonic() > until_s:
            return
        yield page


@dataclass(slots=True)
class OfHost:
    jobs: list[Json]  # the latest ones
    more: bool = True  # whether the host has more jobs
    is_ahead: bool = False  # it has ends of the future, which are left out
    withheld: str = ""  # the setting that limits these to jobs submitted on our host
    only_of: str = ""  # the only user whose jobs are shown to the caller; "": all users
    gaps: list[Json] = field(default_factory=list)  # what the host's accounting lacks
    # whether it says which of the ids that are asked for are on record
    goes_by_ids: bool = False
    # all jobs that ended from then on are on record; nan: not known
    record_since: float = math.nan


def of_host(daemons: Daemons, host: str, question: dict[str, object], limit: int) -> OfHost:
    """Returns a host's latest jobs. Raises LbdError."""
    found = OfHost([])
    before: list[object] = [0.0, 0]
    wanted = min(limit, HOST_MAX)
    for _ in pages(-(-wanted // PAGE) + PAGES_MORE):
        if len(found.jobs) >= wanted:
            break
        page = min(PAGE, limit - len(found.jobs))
        reply = ask_host(daemons, "past", host, **question, limit=page, before=before)
        rows, found.withheld = tables(reply, "jobs"), str(reply.get("withheld") or "")
        found.is_ahead |= bool(reply.get("is_ahead"))
        found.only_of, found.gaps = text(reply, "only_of"), tables(reply, "gaps")
        found.goes_by_ids = bool(reply.get("goes_by_ids"))
        found.record_since = number(reply, "record_since")
        if not rows:
            found.more = bool(reply.get("more"))
            return found
        before = [rows[-1].get("finished"), rows[-1].get("number")]
        found.jobs += [{key: row[key] for key in row if key != "number"} for row in rows]
        if not reply.get("more"):
            found.more = False
            return found
    return found
