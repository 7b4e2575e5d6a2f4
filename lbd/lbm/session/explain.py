"""Could a command begin there? For `explain`, which shows why a host is no candidate.

The far side answers by a dry start.
"""

import asyncio
import itertools
import os

from lbd.errors import LbdError, Unavailable
from lbd.keeper.local_account import Refuse
from lbd.lbm.core.journey import keeps_here
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.core.next_host_after_refusal import as_excluded, refused_by
from lbd.lbm.inbound.context import DRAINED, NOT_YET, InboundContext
from lbd.lbm.inbound.refusal_text import phase_of
from lbd.lbm.inbound.request import at_all_hours, dry_start, make_order, read_run_request
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.directory import Directory
from lbd.lbm.outbound.request import stamp_message
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.session.cluster import ASK_LIM_S, ClusterHost, Unreached
from lbd.lbm.session.peer_process import AnyProcess
from lbd.lbm.session.request import ClientRequest
from lbd.local.caller import Caller, person_of
from lbd.local.json_socket import Json, Refusal
from lbd.local.turns import Turns
from lbd.model import HostId
from lbd.net.gen import lbm_pb2
from lbd.policy.invocation import key_of, name_of
from lbd.policy.needs import counted_peak
from lbd.text.one_line import one_line
from lbd.text.placement_phrases import ALL_OTHERS_EXCLUDED

ANSWER_S = 2.0
FOR_GOOD = "admission"  # the phase of permanent refusals by rules
CLOSED = (FOR_GOOD, NOT_YET, DRAINED)
# Asks whether a user is let in at all: it is no program, so no rule on programs is about it.
NO_PROGRAM = b"/"
# Questions at once. A user who looks into a directory that hangs occupies a turn for that long, so
# each user has a turn of their own too.
CHECKS = 4  # for other hosts
ASKED = 16  # hosts


def refused_reply(reason: str, phase: str) -> lbm_pb2.CheckReply:
    return lbm_pb2.CheckReply(reason=reason, phase=phase, for_good=phase == FOR_GOOD)


def argv_of(question: Json) -> list[bytes]:
    words = question.get("command")
    return [os.fsencode(str(word)) for word in (words if isinstance(words, list) else [])]


class Checks:
    """Questions of this host's users, and answers to other hosts."""

    def __init__(self, host: InboundContext, home: OutboundContext) -> None:
        self._host = host
        self._home = home
        self._turns = Turns(CHECKS, CHECKS)  # by user on this host
        self._asking = Turns(ASKED, ASKED)
        self._numbers = itertools.count(1)

    async def for_peer(self, data: bytes, caller: str) -> lbm_pb2.CheckReply:
        """Answers another LBM. Raises PeerError, Unavailable."""
        limit_bytes = self._host.config.lbm.max_request_bytes
        request = read_run_request(data, limit_bytes, caller, names_job=False)
        requests = self._host.requests
        if not requests.take(caller, len(data)):  # it may wait for long
            raise Unavailable(
                "too many long requests at once (lbm.host_request_bytes, hosts_request_bytes)"
            )
        try:
            return await self._check(request)
        finally:
            requests.give_back(caller, len(data))

    async def _check(self, request: lbm_pb2.RunRequest) -> lbm_pb2.CheckReply:
        admitted = await self._host.admit(request.user, request.uid, request.origin)
        request.job_id = str(next(self._numbers))
        if isinstance(admitted, Refuse):
            return await self._refused(request, admitted)
        order = make_order(request, admitted.run_as, self._host.rules.config)
        async with self._turns.turn(order.user):
            found = await dry_start(self._host.link, request, order, ANSWER_S)
        if found is not None:
            return refused_reply(found.reason, phase_of(found.phase))
        return lbm_pb2.CheckReply(able=True)

    async def _refused(self, request: lbm_pb2.RunRequest, refused: Refuse) -> lbm_pb2.CheckReply:
        if refused.then is not None:
            link, config = self._host.link, self._host.rules.config
            async with self._turns.turn(refused.then):
                refused = await at_all_hours(link, request, refused, config, request.job_id)
        return refused_reply(refused.reason, self._host.phase_of(refused))

    async def explain(self, question: Json, caller: Caller) -> Json:
        """Returns the LIM's dry decision among the hosts that could begin the command."""
        to_lim: Json = {
            name: question[name] for name in question if name not in ("id", "command", "kept")
        }
        to_lim |= {"op": "place", "dry": True, **self._learnt(question, caller)}
        if self._is_kept(question):
            return await self._kept(to_lim, argv_of(question))
        reply = await self._placed(to_lim)
        unable, silent = await self._looks(question, caller)
        wanted = question.get("wanted")
        if isinstance(wanted, str) and wanted in unable:
            raise Refusal(f"{wanted}: {unable[wanted]}", "unavailable")
        if isinstance(wanted, str) and wanted in silent:
            why = silent[wanted]
            reply["unknown"] = f"{wanted} did not say whether the command can begin there: {why}"
        if not unable:
            return reply
        excluded = question.get("excluded")
        left_out = {str(name) for name in excluded} if isinstance(excluded, list) else set()
        try:
            reply = await self._home.lim.call(
                {**to_lim, "excluded": sorted(left_out | unable.keys())}, ASK_LIM_S
            )
        except Refusal as refusal:
            whys = [f"{name}: {why}" for name, why in sorted(unable.items())]
            if str(refusal) != ALL_OTHERS_EXCLUDED or left_out:  # else nobody has excluded any
                whys.insert(0, str(refusal))
            raise Refusal("; ".join(whys), refusal.code) from None
        candidates = reply.get("candidates")
        for row in candidates if isinstance(candidates, list) else []:
            if isinstance(row, dict) and row.get("name") in unable:
                row["why"] = unable[row["name"]]
        return reply

    async def nobody_admits(self, question: Json, caller: Caller) -> str:
        """Why no host that may run a queued job of the caller's takes it now, with until when if
        that is known; "" if one does, or may. The program counts, if there is one and no directory
        is part of its name: it is not found then, as it may come with the job."""
        own, only = self._home.config.host.name, question.get("host")
        excluded = question.get("excluded")
        left_out = excluded if isinstance(excluded, list) else []
        try:
            others = [peer for peer in await self._home.cluster.others() if peer.is_up]
        except LbdError:
            return ""
        request = lbm_pb2.RunRequest(
            job_id="check", origin=own, user=user_name(caller.uid), uid=caller.uid,
            argv=argv_of(question)[:1] or [NO_PROGRAM], directory=b"/",
            environment=[b"PATH=" + os.fsencode(str(question.get("path") or os.defpath))],
        )  # fmt: skip

        async def why(host: ClusterHost | None) -> Refused | None:
            name = own if host is None else host.name
            try:
                reply = await (self._check(request) if host is None else self._asks(host, request))
            except LbdError:
                return None
            said = Refused(f"{name}: {one_line(reply.reason)}", reply.phase)
            return said if reply.phase in CLOSED else None

        asked = {HostId(own): None, **{HostId(peer.name): peer for peer in others}}
        names = [one for one in asked if only in (None, one) and one not in left_out]
        found = await asyncio.gather(*(why(asked[name]) for name in names))
        refusals = [(name, one) for name, one in zip(names, found, strict=True) if one is not None]
        return refused_by(refusals) if len(refusals) == len(names) else ""

    async def _placed(self, to_lim: Json) -> Json:
        """Raises Refusal."""
        excluded = to_lim.get("excluded")
        try:
            return await self._home.lim.call(to_lim, ASK_LIM_S)
        except Refusal as refusal:
            names = [str(name) for name in excluded] if isinstance(excluded, list) else []
            raise Refusal(as_excluded(str(refusal), names), refusal.code) from None

    def _is_kept(self, question: Json) -> bool:
        """Whether the command never leaves, by the owner's list or, as the client reports, by the
        user's. The user may still name this host."""
        if question.get("wanted") == self._home.config.host.name:
            return False
        kept = question.get("kept") is True
        return kept or self._home.eligible.kept_by_owner(argv_of(question))

    async def _kept(self, to_lim: Json, argv: list[bytes]) -> Json:
        """Answers like a journey. Raises Refusal."""
        if to_lim.get("wanted") is not None or to_lim.get("must_leave") is True:
            raise Refusal(keeps_here(name_of(argv)), "unavailable")
        reply = await self._home.lim.call({**to_lim, "must_stay": True}, ASK_LIM_S)
        return {**reply, "reason": "never"}

    def _learnt(self, question: Json, caller: Caller) -> Json:
        """The command's CPU time and needs, as a real placement would state them."""
        given = question.get("needs") or ""
        key = key_of(argv_of(question))
        cpu_s, learnt_bytes = self._home.eligible.expected(caller.uid, key)
        peak_bytes = counted_peak(learnt_bytes)
        if peak_bytes and isinstance(given, str):
            given = f"{given} ~{peak_bytes}".strip()
        return {"cpu_s": cpu_s, "needs": given}

    async def _looks(self, question: Json, caller: Caller) -> tuple[dict[str, str], dict[str, str]]:
        """Why hosts cannot begin the command, and why others did not say. A host that the user
        names is asked whatever our LIM believes, since the command would go there."""
        wanted = question.get("wanted")
        others = await self._home.cluster.others()
        hosts = [peer for peer in others if peer.is_up or peer.name == wanted]
        if not hosts:
            return {}, {}
        request = await self._request(question, caller)
        found = await asyncio.gather(*(self._ask(host, request) for host in hosts))
        unable: dict[str, str] = {}
        silent: dict[str, str] = {}
        for host, why in zip(hosts, found, strict=True):
            if isinstance(why, Unavailable) and not isinstance(why, Unreached):
                silent[host.name] = str(why)
            elif why:
                unable[host.name] = str(why)
        return unable, silent

    async def _request(self, question: Json, caller: Caller) -> lbm_pb2.RunRequest:
        program = str(question["program"])
        staged = question.get("staged") is True
        client_request = ClientRequest(
            # Files that are sent along need not be there yet.
            argv=[os.fsencode("sh" if staged and "/" in program else program)],
            directory=os.fsencode(str(question["directory"])),
            mode="auto" if question.get("wanted") is None else "host",
            flags=str(question.get("flags", "")).encode(),
        )
        asks = caller.uid, AnyProcess(caller.pid)
        directory = Directory(self._home.looker, self._home.unshared, client_request, *asks)
        return lbm_pb2.RunRequest(
            job_id="check",
            origin=self._home.config.host.name,
            user=user_name(caller.uid),
            uid=caller.uid,
            argv=client_request.argv,
            environment=[b"PATH=" + os.fsencode(str(question["path"]))],
            directory=b"/" if staged else client_request.directory,
            directory_stamp=None if staged else stamp_message(await directory.stamp()),
        )

    async def _ask(self, host: ClusterHost, request: lbm_pb2.RunRequest) -> str | Unavailable:
        """Why it could not begin there, "" if it could; or why the host did not answer."""
        try:
            reply = await self._asks(host, request)
        except Unavailable as problem:
            return problem
        return "" if reply.able else one_line(reply.reason) or "refused"

    async def _asks(self, host: ClusterHost, request: lbm_pb2.RunRequest) -> lbm_pb2.CheckReply:
        """Raises Unavailable."""
        uid, reply = request.uid, lbm_pb2.CheckReply
        async with self._asking.turn(person_of(uid)):
            return await self._home.cluster.ask(uid, host, "Check", request, reply, 2 * ANSWER_S)
