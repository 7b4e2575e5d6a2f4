"""The answers to `lbctl stats, history, advise`: from this LBM, or through it from another host's.

One question is about one host, so that the client adds the figures up, not a daemon that serves
commands. Only the answer to `past` contains command lines. Another host gets those of the users for
whom it may speak here ([admission] origins), everybody's only if admin.hosts here names it, and
otherwise those of the jobs that it submitted itself.
"""

import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

from lbd.errors import PeerError, Unavailable
from lbd.lbm.core.vouching import why_withheld
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.owner.rules import InForce
from lbd.lbm.session.job_records import ID_CHARS_MAX, ended_record, has_times, is_past_of, job_json
from lbd.lbm.session.request import CPU_S_MAX
from lbd.lbm.usage.gaps import KEPT, Gap
from lbd.lbm.usage.measures import SIZE_S_MIN, STEPS_MAX, Measure, measure_of_row
from lbd.lbm.usage.record import TEXT_CHARACTERS, Usage
from lbd.lbm.usage.store import PastJobs
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.json_socket import Json
from lbd.model import HostId
from lbd.net.gen import lbm_pb2 as pb
from lbd.text.job_limits import SLOTS_MAX, TIME_MAX
from lbd.text.one_line import one_line

PAGE_MAX = 2000  # past jobs in one answer
PAST_MAX = 1000  # the same with all that is known about each
PATTERN_CHARS = 255
STATES_MAX = 16
ALGORITHMS_MAX = 100
GAPS_MAX = KEPT + 2  # and those of the backlog
ROWS_MAX = 1000  # figures of one kind in another host's answer
NO_SUCH_NUMBER = "after must be the number of a job"
NO_HOST = "?"  # in a lab that does not prove names
PEER_S = 3.0
COUNT_MAX = 1 << 53
FIGURE_MAX = 1e60
RECORDED_MAX = 100_000_000  # the most that stats.max_rows may be
CLOCK_OFF_S = 3600.0  # by which another host's clock may be ahead of ours
NO_NUMBERS = "its figures are not numbers"
IMPOSSIBLE = "its figures cannot be"
KINDS = {"by_command": "command", "by_user": "user", "by_host": "host"}

Asked = TypeVar("Asked", pb.StatsRequest, pb.HistoryRequest, pb.PastRequest)
AnyReply = TypeVar("AnyReply", pb.StatsReply, pb.HistoryReply, pb.PastReply)


class UsageAnswers:
    def __init__(self, home: OutboundContext, rules: InForce, admins: Admins) -> None:
        self._home = home
        self._rules = rules
        self._log = home.usage
        self._admins = admins

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        host = HostId(str(question["of"]))
        if question["op"] == "history":
            self._admins.check(caller)
            page = pb.HistoryRequest(
                since=moment(question["since"]), after=whole(question["after"]), limit=PAGE_MAX
            )
            history = await self._of(
                caller.uid, host, self.history, "History", page, pb.HistoryReply
            )
            return {"jobs": [past_json(job) for job in history.jobs[:PAGE_MAX]]}
        sees_all = self._admins.include(caller)
        user, uid = ("", None) if sees_all else (user_name(caller.uid), max(0, caller.uid))
        if question["op"] == "past":
            past = await self._past_of(caller.uid, host, past_request(question, user, uid))
            return past | {"only_of": user or None}
        user = user or short(question, "user")
        since, until = moment(question["since"]), moment(question.get("until", 0.0))
        asked = pb.StatsRequest(since=since, until=until, user=user, uid=uid)
        stats = await self._of(caller.uid, host, self.stats, "Stats", asked, pb.StatsReply)
        return stats_json(stats, user, time.time())

    # For this host's users, and for another host that asks

    async def stats(self, asked: pb.StatsRequest, _caller: str = "") -> pb.StatsReply:
        """Raises Unavailable."""
        uid = asked.uid if self._goes_by_uid and asked.HasField("uid") else None
        (total, groups), record_since, algorithms, gaps = await self._log.ask(
            lambda store: (
                store.summary(asked.since, asked.user, uid, asked.until),
                store.kept_since(),
                store.algorithms(ALGORITHMS_MAX),
                self._log.gaps(),
            )
        )
        return pb.StatsReply(
            all=figures(total),
            **{
                kind: [figures(measure, key) for key, measure in groups[column].items()]
                for kind, column in KINDS.items()
            },
            record_since=record_since,
            algorithms=[pb.AlgorithmSince(since=since, name=name) for since, name in algorithms],
            trouble=self._log.trouble,
            gaps=map(gap_record, gaps),
        )

    async def history(self, asked: pb.HistoryRequest, _caller: str = "") -> pb.HistoryReply:
        """Raises Unavailable, PeerError."""
        if asked.after > COUNT_MAX:
            raise PeerError(NO_SUCH_NUMBER)
        limit = min(asked.limit, PAGE_MAX)
        rows = await self._log.ask(lambda store: store.page(asked.since, asked.after, limit))
        return pb.HistoryReply(jobs=[past(number, usage) for number, usage in rows])

    async def past(self, asked: pb.PastRequest, host: str) -> pb.PastReply:
        """Answers as far as the asking `host` may know. Raises Unavailable, PeerError."""
        longest = max(map(len, (asked.user, asked.name, asked.host, *asked.states, *asked.ids)))
        if longest > PATTERN_CHARS or len(asked.states) > STATES_MAX or len(asked.ids) > PAST_MAX:
            raise PeerError("question too long")
        if asked.before_number > COUNT_MAX:
            raise PeerError(NO_SUCH_NUMBER)
        uid, admission = asked.uid if asked.HasField("uid") else None, self._rules.config.admission
        withheld = why_withheld(self._home.config, admission, host, asked.user, uid)
        jobs = PastJobs(
            max(1, min(asked.limit, PAST_MAX)), asked.user, uid if self._goes_by_uid else None,
            (host or NO_HOST) if withheld else "", asked.name, tuple(asked.states),
            asked.host, asked.since, asked.until, (asked.before, asked.before_number),
            tuple(asked.ids),
        )  # fmt: skip
        (rows, more), gaps, record_since = await self._log.ask(
            lambda store: (store.latest(jobs), self._log.gaps(), store.kept_since())
        )
        return pb.PastReply(
            jobs=[ended_record(*row) for row in rows],
            more=more,
            withheld=withheld,
            gaps=map(gap_record, gaps),
            goes_by_ids=bool(host) or not withheld,
            record_since=record_since,
        )

    async def _past_of(self, asker: int, host: HostId, asked: pb.PastRequest) -> Json:
        """Raises LbdError."""
        own = self._home.config.host.name
        reply = await self._of(asker, host, self.past, "Past", asked, pb.PastReply)
        latest = time.time() + CLOCK_OFF_S  # later ends would come before those of all other hosts
        is_ahead = any(job.finished > latest for job in reply.jobs)
        if is_ahead:
            asked.before, asked.before_number = latest, 0
            reply = await self._of(asker, host, self.past, "Past", asked, pb.PastReply)
        # with numbers, a user may have another name there
        whose = "" if self._goes_by_uid else asked.user
        rows = [job_json(job) | {"number": job.number} for job in reply.jobs[:PAST_MAX]
                if has_times(job) and (host == own or is_past_of(host, job))
                and job.finished <= latest and whose in ("", job.user)]  # fmt: skip
        return {
            "jobs": rows,
            "more": reply.more,
            "is_ahead": is_ahead,
            "withheld": one_line(reply.withheld),
            "gaps": gaps_json(reply.gaps),
            "goes_by_ids": reply.goes_by_ids,
            "record_since": begun_s(reply.record_since, time.time()),
        }

    @property
    def _goes_by_uid(self) -> bool:
        return self._home.config.users.map == "uid"

    async def _of(
        self,
        uid: int,
        host: HostId,
        own: Callable[[Asked, str], Awaitable[AnyReply]],
        method: str,
        asked: Asked,
        reply: type[AnyReply],
    ) -> AnyReply:
        """Asks this host, or another, for that user. Raises LbdError."""
        if host == self._home.config.host.name:
            return await own(asked, host)
        peer = await self._home.cluster.peer(host)
        if peer.is_down:
            raise Unavailable("down")
        return await self._home.cluster.ask(uid, peer, method, asked, reply, PEER_S)


def past_request(question: Json, user: str, uid: int | None) -> pb.PastRequest:
    """`user`: the only one whose jobs the caller may see; "" = all. Raises KeyError, TypeError,
    ValueError."""
    states, ids = some(question, "states"), some(question, "ids")
    before = some(question, "before") or (0.0, 0)
    return pb.PastRequest(
        user=user or short(question, "user"),
        uid=uid,
        name=short(question, "name"),
        states=[str(state) for state in states[:STATES_MAX]],
        host=short(question, "ran_on"),
        since=moment(question.get("since", 0.0)),
        until=moment(question.get("until", 0.0)),
        limit=min(PAST_MAX, whole(question["limit"])),
        before=moment(before[0]),
        before_number=whole(before[1]),
        ids=[str(one)[:ID_CHARS_MAX] for one in ids[:PAST_MAX]],
    )


def some(question: Json, key: str) -> Sequence[object]:
    """Raises TypeError."""
    found = question.get(key) or ()
    if not isinstance(found, list | tuple):
        raise TypeError(f"{key} must be a list")
    return found


def short(question: Json, key: str) -> str:
    """Raises ValueError."""
    text = str(question.get(key) or "")
    if len(text) > PATTERN_CHARS:
        raise ValueError(f"{key} has more than {PATTERN_CHARS} characters")
    return text


def moment(value: object) -> float:
    """Returns UNIX seconds. Raises ValueError."""
    if not isinstance(value, int | float) or not 0 <= value <= TIME_MAX:
        raise ValueError("a time must be in UNIX seconds")
    return float(value)


def whole(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value <= COUNT_MAX:
        raise ValueError(NO_SUCH_NUMBER)
    return value


# As messages, and as JSON


def figures(measure: Measure, key: str = "") -> pb.Figures:
    return pb.Figures(
        key=key,
        jobs=measure.jobs,
        failed=measure.failed,
        moved=measure.moved,
        wrong=measure.wrong,
        cpu_s=measure.cpu_s,
        response=pb.Sums(**asdict(measure.response)),
        waiting=pb.Sums(**asdict(measure.waiting)),
        slowdown=pb.Sums(**asdict(measure.slowdown)),
        slot_s=measure.slot_s,
    )


def stats_json(reply: pb.StatsReply, user: str, now_s: float) -> Json:
    """`user`: the only one whose jobs count. Raises PeerError if it is invalid."""
    groups = {kind: getattr(reply, kind)[:ROWS_MAX] for kind in KINDS}
    for figure in (reply.all, *itertools.chain(*groups.values())):
        check_possible(figure, now_s)
    if any(sum(row.jobs for row in rows) > reply.all.jobs for rows in groups.values()):
        raise PeerError(IMPOSSIBLE)
    return {
        "all": figures_row(reply.all),
        **{kind: [figures_row(row) for row in rows] for kind, rows in groups.items()},
        "record_since": begun_s(reply.record_since, now_s),
        "algorithms": [
            {"since": finite(one.since), "algorithm": one_line(one.name)}
            for one in reply.algorithms[:ALGORITHMS_MAX]
        ],
        "trouble": one_line(reply.trouble),
        "gaps": gaps_json(reply.gaps),
        "user": user or None,
    }


def gap_record(gap: Gap) -> pb.Gap:
    return pb.Gap(**asdict(gap))


def gaps_json(gaps: Sequence[pb.Gap]) -> list[Json]:
    """Raises PeerError if they are invalid."""
    found: list[Json] = []
    for gap in gaps[:GAPS_MAX]:
        if not 0.0 <= gap.since <= gap.until <= TIME_MAX:
            raise PeerError(NO_NUMBERS)
        times: Json = {"since": gap.since, "until": gap.until}
        found.append({"commands": counted(gap.commands), **times, "not_yet": gap.not_yet})
    return found


def check_possible(figure: pb.Figures, now_s: float) -> None:
    """Checks that a host's jobs can have these figures. Raises PeerError."""
    longest_s = now_s + CLOCK_OFF_S  # since 1970
    slowest = longest_s / SIZE_S_MIN
    samples = (figure.response, longest_s), (figure.waiting, longest_s), (figure.slowdown, slowest)
    counts = (figure.failed, figure.moved, figure.wrong, *(one.count for one, _ in samples))
    is_possible = (
        max(counts) <= figure.jobs <= RECORDED_MAX
        and len(figure.key) <= TEXT_CHARACTERS
        and 0.0 <= figure.cpu_s <= figure.jobs * CPU_S_MAX
        and 0.0 <= figure.slot_s <= figure.jobs * longest_s * SLOTS_MAX
        and all(0.0 <= one.total <= one.count * most for one, most in samples)
        and all(0.0 <= one.squares <= one.count * most**2 for one, most in samples)
        and all(sum(one.steps.values()) <= one.count for one, _ in samples)
    )
    if not is_possible:
        raise PeerError(IMPOSSIBLE)


def begun_s(record_since: float, now_s: float) -> float | None:
    """Returns since when a host's record is complete, None if it does not say or cannot know."""
    return record_since if 0.0 < record_since <= now_s + CLOCK_OFF_S else None


def figures_row(figure: pb.Figures) -> list[object]:
    """A row that `measures.measure_of_row` can read: otherwise one host's answer would spoil the
    whole statistics. Raises PeerError."""
    samples = figure.response, figure.waiting, figure.slowdown
    sums = [part for one in samples for part in (one.count, one.total, one.squares)]
    steps = [[list(pair) for pair in one.steps.items()][:STEPS_MAX] for one in samples]
    counts = (figure.jobs, figure.failed, figure.moved, figure.wrong)
    row: list[object] = [one_line(figure.key), *counts, figure.cpu_s, *sums, *steps, figure.slot_s]
    measure_of_row(row)
    return row


def finite(value: float) -> float:
    """Raises PeerError, also for a number whose square would not be finite."""
    if not abs(value) <= FIGURE_MAX:
        raise PeerError(NO_NUMBERS)
    return value


def counted(value: int) -> int:
    """Raises PeerError."""
    if value > COUNT_MAX:
        raise PeerError(NO_NUMBERS)
    return value


def past(number: int, usage: Usage) -> pb.PastJob:
    return pb.PastJob(
        number=number,
        submitted=usage.submitted,
        waiting_s=usage.waiting_s or 0.0,
        response_s=usage.response_s or 0.0,
        cpu_s=usage.cpu_s,
        command=usage.command,
        origin=usage.origin,
        host=usage.host,
        pinned=bool(usage.pinned),
    )


def past_json(job: pb.PastJob) -> list[object]:
    """Raises PeerError if it is invalid."""
    return [
        job.number,
        finite(job.submitted),
        finite(job.waiting_s),
        finite(job.response_s),
        finite(job.cpu_s) if job.HasField("cpu_s") else None,
        one_line(job.command),
        one_line(job.origin),
        one_line(job.host),
        job.pinned,
    ]
