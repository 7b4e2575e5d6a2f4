"""Could a command begin there? For `explain`, which shows of each host why it is no candidate.

The far side goes all the way to the point of exec: a child becomes the user, goes to the directory,
compares it, looks for the program. Nothing runs, and no slot is taken.
"""

import asyncio
import itertools
import os
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm.account_cache import user_name
from lbd.lbm.caller import AnyProcess
from lbd.lbm.directory import Directory
from lbd.lbm.home import Home
from lbd.lbm.host import Host
from lbd.lbm.link import NotStarted
from lbd.lbm.orders import explain, make_order
from lbd.lbm.outgoing import stamp_message
from lbd.lbm.request import ClientRequest
from lbd.lbm.run_request import read_run_request
from lbd.lbm.spawn_order import ABLE
from lbd.lbm.users import Refuse
from lbd.model import JobId
from lbd.one_line import one_line
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.local import Caller, Json, Refusal

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, lbm_pb2.CheckReply]

METHOD = "/lbd.v1.Lbm/Check"
ASK_LIM_S = 2.0
ANSWER_S = 2.0
CHECKS = 4  # at once, for other hosts
ASKED = 16  # hosts at once


class Checks:
    """Questions of this host's users, and answers to other hosts."""

    def __init__(self, host: Host, home: Home) -> None:
        self._host = host
        self._home = home
        self._turns = asyncio.Semaphore(CHECKS)
        self._asking = asyncio.Semaphore(ASKED)
        self._numbers = itertools.count(1)

    async def for_peer(self, data: bytes, context: "Context", caller: str) -> lbm_pb2.CheckReply:
        """What another LBM asks."""
        try:
            limit_bytes = self._host.config.lbm.max_request_bytes
            request = read_run_request(data, limit_bytes, caller, names_job=False)
        except PeerError as problem:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
        admitted = await self._host.admit(request.user, request.uid, request.origin)
        if isinstance(admitted, Refuse):
            return lbm_pb2.CheckReply(reason=admitted.reason, stage="admission")
        request.job_id = f"check.{next(self._numbers)}"
        request.closed_fds = 7
        order = make_order(request, admitted.run_as, self._host.rules.config)
        order.check = True
        async with self._turns:
            try:
                spawned = await self._host.link.spawn(order, [], lambda _: None)
                await asyncio.wait_for(asyncio.shield(spawned.begun), ANSWER_S)
            except NotStarted as found:
                if found.stage == ABLE:
                    return lbm_pb2.CheckReply(able=True)
                return lbm_pb2.CheckReply(reason=explain(request, found), stage=found.stage)
            except (TimeoutError, LbdError) as problem:
                await self._host.link.tell(keeper.END_TREE, JobId(request.job_id))
                return lbm_pb2.CheckReply(reason=str(problem) or "no answer", stage="spawn")
        raise AssertionError("a check has begun to run")

    async def explain(self, question: Json, caller: Caller) -> Json:
        """The LIM's dry decision among the hosts that could begin the command."""
        wish: Json = {name: question[name] for name in question if name not in ("id", "command")}
        wish |= {"op": "place", "dry": True, "cpu_s": self._learnt_s(question, caller)}
        reply = await self._home.lim.call(wish, ASK_LIM_S)
        unable = await self._unable(question, caller)
        wanted = question.get("wanted")
        if isinstance(wanted, str) and wanted in unable:
            raise Refusal(f"{wanted}: {unable[wanted]}", "unavailable")
        if not unable:
            return reply
        excluded = question.get("excluded")
        left_out = {str(name) for name in excluded} if isinstance(excluded, list) else set()
        try:
            reply = await self._home.lim.call(
                {**wish, "excluded": sorted(left_out | unable.keys())}, ASK_LIM_S
            )
        except Refusal as refusal:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(unable.items()))
            raise Refusal(f"{refusal}; {reasons}", refusal.code) from None
        candidates = reply.get("candidates")
        for row in candidates if isinstance(candidates, list) else []:
            if isinstance(row, dict) and row.get("name") in unable:
                row["why"] = unable[row["name"]]
        return reply

    def _learnt_s(self, question: Json, caller: Caller) -> float:
        """The command's CPU time, as a placement of it would be told."""
        words = question.get("command")
        argv = [os.fsencode(str(word)) for word in (words if isinstance(words, list) else [])]
        return self._home.eligible.expected_cpu_s(caller.uid, argv)

    async def _unable(self, question: Json, caller: Caller) -> dict[str, str]:
        """The hosts that said they could not begin it, and why."""
        if self._home.peers is None:
            return {}
        request = await self._request(question, caller)
        answer = await self._home.lim.call({"op": "peers"}, ASK_LIM_S)
        rows = answer.get("peers")
        hosts = [
            (str(row["name"]), str(row["lbm"]))
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict)
            and row["name"] != self._home.config.host.name
            and row["state"] == "up"
        ]
        found = await asyncio.gather(*(self._ask(*host, request) for host in hosts))
        return {name: why for (name, _), why in zip(hosts, found, strict=True) if why}

    async def _request(self, question: Json, caller: Caller) -> lbm_pb2.RunRequest:
        program = str(question["program"])
        staged = question.get("staged") is True
        told = ClientRequest(
            # What is sent along need not be there yet.
            argv=[os.fsencode("sh" if staged and "/" in program else program)],
            directory=os.fsencode(str(question["directory"])),
            mode="auto" if question.get("wanted") is None else "host",
            flags=str(question.get("flags", "")).encode(),
        )
        asks = caller.uid, AnyProcess(caller.pid)
        directory = Directory(self._home.looker, self._home.unshared, told, *asks)
        return lbm_pb2.RunRequest(
            job_id="check",
            origin=self._home.config.host.name,
            user=user_name(caller.uid),
            uid=caller.uid,
            argv=told.argv,
            environment=[b"PATH=" + os.fsencode(str(question["path"]))],
            directory=b"/" if staged else told.directory,
            directory_stamp=None if staged else stamp_message(await directory.stamp()),
        )

    async def _ask(self, host: str, address: str, request: lbm_pb2.RunRequest) -> str:
        """Why it could not begin there; "" also of a host that does not answer."""
        assert self._home.peers is not None
        try:
            ask = self._home.peers.channel(host, address).unary_unary(
                METHOD,
                request_serializer=lbm_pb2.RunRequest.SerializeToString,
                response_deserializer=lbm_pb2.CheckReply.FromString,
            )
            async with self._asking:
                reply: lbm_pb2.CheckReply = await ask(
                    request, metadata=self._home.peers.metadata, timeout=2 * ANSWER_S
                )
        except (grpc.aio.AioRpcError, Unavailable):
            return ""
        return "" if reply.able else one_line(reply.reason) or "refused"
