"""The answers to `lbctl owners` and `lbctl advise` about the owner of this host or another."""

import time

from lbd.errors import PeerError, Unavailable
from lbd.lbm.core.admission import in_words
from lbd.lbm.core.owner_book import KEPT, OwnerBook
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.rules import InForce
from lbd.local.json_socket import Json
from lbd.model import HostId
from lbd.net.gen import lbm_pb2 as pb
from lbd.policy.wait_or_migrate import HOURS, free_within_s
from lbd.policy.wait_trials import FEWEST_WAITS
from lbd.text.one_line import one_line

PEER_S = 3.0
RULE_CHARS_MAX, RULES_MAX = 80, 20
FIGURE_MAX = 1e11  # seconds, also UNIX times


class OwnerAnswers:
    def __init__(self, rules: InForce, home: OutboundContext, book: OwnerBook) -> None:
        self._rules, self._home, self._book = rules, home, book

    async def answer(self, question: Json, uid: int) -> Json:
        """Raises LbdError, KeyError."""
        host = HostId(str(question["of"]))
        asked = pb.OwnersRequest(past=question.get("past") is True)
        if host == self._book.host:
            return owner_json(host, self._reply(asked))
        cluster = self._home.cluster
        peer = await cluster.peer(host)
        if peer.is_down:
            raise Unavailable("down")
        reply = await cluster.ask(uid, peer, "Owners", asked, pb.OwnersReply, PEER_S)
        return owner_json(host, reply)

    async def for_peer(self, asked: pb.OwnersRequest, _caller: str) -> pb.OwnersReply:
        return self._reply(asked)

    def _reply(self, asked: pb.OwnersRequest) -> pb.OwnersReply:
        book, admission = self._book, self._rules.config.admission
        history, chain = book.history, book.history.chain()
        kind = admission.owner_is_back
        return pb.OwnersReply(
            owner=self._rules.owner_state,
            since=book.since_s or 0.0,
            p01=chain.p01,
            p11=chain.p11,
            step_s=book.step_s,
            by_hour=[
                pb.OwnerHour(p01=of.p01, p11=of.p11, steps=history.steps(hour))
                for hour, of in enumerate(history.by_hour())
            ],
            steps=sum(map(history.steps, range(HOURS))),
            stays=len(history.stays_s),
            free_within_s=free_within_s(history, time.time()),
            rule=f"decide by {admission.decide_by}" if kind == "decide" else kind,
            admission=in_words(admission),
            shown_by=self._rules.owner,
            interruptions=[
                pb.Interruption(
                    ended=one.ended_s,
                    stay_s=one.stay_s,
                    cost_s=one.cost_s,
                    moved_after_s=one.moved_after_s,
                    trial_limit_s=trial_limit_s(book, one.cost_s),
                )
                for one in (book.interruptions if asked.past else ())
            ],
        )


def trial_limit_s(book: OwnerBook, cost_s: float) -> float | None:
    """How long the trials would wait now; None while they have seen too little."""
    if book.trials.interruptions < FEWEST_WAITS:
        return None
    return min(book.trials.limit(cost_s / book.step_s) * book.step_s, FIGURE_MAX)  # a finite number


def owner_json(host: str, reply: pb.OwnersReply) -> Json:
    """The answer as `lbctl owners --json` shows it. Raises PeerError if it is invalid."""
    if len(reply.by_hour) != HOURS or reply.owner not in ("", "here", "away"):
        raise PeerError("its answer is not about an owner")
    within_s = finite(reply.free_within_s) if reply.HasField("free_within_s") else None
    return {
        "host": host,
        "owner": reply.owner or None,
        "since": (finite(reply.since) or None) if reply.owner else None,
        "p01": chance(reply.p01),
        "p11": chance(reply.p11),
        "step_s": finite(reply.step_s),
        "by_hour": [
            {"hour": hour, "p01": chance(of.p01), "p11": chance(of.p11), "steps": of.steps}
            for hour, of in enumerate(reply.by_hour)
        ],
        "steps": reply.steps,
        "stays": reply.stays,
        "free_within_s": within_s,
        "rule": one_line(reply.rule, RULE_CHARS_MAX),
        "shown_by": one_line(reply.shown_by, RULE_CHARS_MAX) or None,
        "admission": [one_line(rule) for rule in reply.admission[:RULES_MAX]],
        "interruptions": [
            [
                *map(finite, (one.ended, one.stay_s, one.cost_s)),
                finite(one.moved_after_s) if one.HasField("moved_after_s") else None,
                finite(one.trial_limit_s) if one.HasField("trial_limit_s") else None,
            ]
            for one in reply.interruptions[:KEPT]
        ],
    }


def finite(value: float) -> float:
    """Raises PeerError."""
    if not 0 <= value <= FIGURE_MAX:  # also excludes NaN
        raise PeerError("its figures are malformed")
    return value


def chance(value: float) -> float:
    """Raises PeerError."""
    if not 0 <= value <= 1:
        raise PeerError("its probabilities are invalid")
    return value
