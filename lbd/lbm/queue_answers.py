"""What `lbctl` asks of the queue, by way of this host's LBM: jobs, their output, acts on them.

Nothing here waits for long: a client that follows asks again, so it also outlives us.
"""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator

from lbd.errors import Unavailable
from lbd.lbm.account_cache import user_name
from lbd.lbm.home import Home
from lbd.lbm.logs import cut_short
from lbd.lbm.queue_client import CHECKPOINT, QueueClient, ranges_of
from lbd.lbm.users import Asker, is_same
from lbd.model import ENDED_NAMES
from lbd.rpc.admins import Admins
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.local import AWAY, Caller, Json, Refusal
from lbd.rpc.long_answers import in_turns

PATIENCE_MAX_S = 20.0
NO_UID = -2  # nobody's, nor that of a job whose is not known (-1)


def as_json(tags: pb.TagsTold) -> Json:
    from google.protobuf.json_format import MessageToDict  # for this seldom question alone

    found: Json = MessageToDict(
        tags, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


class QueueAnswers:
    def __init__(self, home: Home, admins: Admins) -> None:
        self._home = home
        self._admins = admins

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        operation = question["op"]
        if operation == "queue.jobs":
            told = await self._find(question, caller, attempts=bool(question.get("attempts")))
            for job in told:
                if self._home.files is not None and job.id in self._home.files.troubles:
                    trouble = f"outputs not fetched yet: {self._home.files.troubles[job.id]}"
                    job.reason = "; ".join(filter(None, (job.reason, trouble)))
            return {"jobs": [queued_json(job) async for job in in_turns(told)]}
        if operation == "queue.predict":
            return await self._predict(question)
        if operation == "queue.act":
            return await self._act(question, caller)
        if operation == "queue.wait":
            return await self._wait(question, caller)
        if operation == "queue.logs":
            return await self._logs(question, caller)
        if operation == "queue.status":
            return await self._status()
        if operation == "queue.tags":
            return as_json(await self._queue().tags())
        raise Refusal(f"unknown operation {operation!r}")

    async def jobs(self, everything: bool, asker: Asker | None) -> list[Json]:
        """For `lbctl jobs`: those of `asker`, of everybody if that is None. Raises Unavailable."""
        told = await self._queue().jobs(pb.JobsAsked(ended_too=everything))
        if told.error:
            raise Unavailable(told.error)
        seen = in_turns(told.jobs)
        return [queued_json(job) async for job in seen if asker is None or self._is_of(asker, job)]

    def _is_of(self, asker: Asker, job: pb.JobTold) -> bool:
        uid = job.uid if job.HasField("uid") else NO_UID  # of a dispatcher of an older release
        return is_same(self._home.config.users, asker, Asker(job.user, uid))

    def _queue(self) -> QueueClient:
        if self._home.queue is None or not self._home.config.dispatch.host:
            raise Unavailable("this cluster has no queue (dispatch.host names no host)")
        return self._home.queue

    async def _find(
        self, question: Json, caller: Caller, *, attempts: bool = False, explained: bool = True
    ) -> list[pb.JobTold]:
        """The jobs that are meant, as far as the caller may see them. Raises LbdError."""
        asker = Asker(user_name(caller.uid), caller.uid)
        asked = pb.JobsAsked(
            selectors=selectors_of(question), user=asker.user, uid=asker.uid, ended_too=True,
            with_attempts=attempts, unexplained=not explained,
        )  # fmt: skip
        told = await self._queue().jobs(asked)
        if told.error:
            raise Refusal(told.error)
        sees_all = self._admins.include(caller)
        jobs = [job for job in told.jobs if sees_all or self._is_of(asker, job)]
        if told.jobs and not jobs:
            raise Refusal("none of these jobs is yours", "denied")
        return jobs

    async def _act(self, question: Json, caller: Caller) -> Json:
        number = question.get("signal", 0)
        reply = await self._queue().act(
            pb.ActRequest(
                verb=str(question["verb"]),
                selectors=selectors_of(question),
                user=user_name(caller.uid),
                uid=caller.uid,
                is_admin=self._admins.include(caller),
                signal=number if isinstance(number, int) else 0,
            )
        )
        return {"done": list(reply.done), "errors": list(reply.errors)}

    async def _status(self) -> Json:
        """For `lbctl status`: the numbers that heartbeats bring are as old as the last of those."""
        queue = self._queue()
        told = await queue.status()
        return {
            "mode": told.mode,
            "leader": queue.leader,
            "queued": told.queued,
            "running": told.running,
            "tiers": {row.host: list(row.tiers) for row in told.tiers},
        }

    async def _predict(self, question: Json) -> Json:
        slots = question.get("slots", 1)
        told = await self._queue().predict(pb.PredictAsked(slots=whole(slots)))
        wait_s = told.wait_s if told.HasField("wait_s") else None
        return {"slots": slots, "predicted_wait_s": wait_s, "predicted_by": told.how}

    async def _wait(self, question: Json, caller: Caller) -> Json:
        """How many have not ended, once all have or after a while; those that have, unless it is
        to be `brief`."""
        jobs = await self._find(question, caller, explained=False)
        waiting = [str(job.id) for job in jobs if job.state not in ENDED_NAMES]
        ended = [job for job in jobs if job.state in ENDED_NAMES]
        asked_s = question.get("patience_s", 0.0)
        patience_s = float(asked_s) if isinstance(asked_s, int | float) else 0.0
        if waiting and patience_s > 0:
            asked = pb.JobsAsked(selectors=ranges_of(waiting), once_ended=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(patience_s, PATIENCE_MAX_S)):
                    async for told in self._queue().watch(asked):
                        ended += told.jobs
        return {
            "open": len(jobs) - len(ended),
            "all_done": all(job.state == "done" for job in ended),
            "jobs": [] if question.get("brief") else [queued_json(job) for job in ended],
        }

    async def _logs(self, question: Json, caller: Caller) -> Json:
        """A piece of one attempt's output, from where the last piece ended."""
        found = await self._find(question, caller, attempts=True)
        if len(found) != 1:
            raise Refusal("output is shown of one job at a time")
        job = found[0]
        wanted = question.get("attempt")
        ended = job.state in ENDED_NAMES
        chain = [wanted] if isinstance(wanted, int) else shown_of(job, ended)
        attempts = {one.number: one for one in job.attempts}
        if not chain or chain[-1] not in attempts:
            if wanted is not None or ended:
                what = "never ran" if wanted is None else f"has no attempt {wanted}"
                raise Refusal(f"job {job.id} {what}")
            return {"data": [], "at": [0, 0], "attempt": 0, "more": True, "state": job.state}
        seen, at = question.get("seen_attempt"), question.get("at")
        number, output_at, error_at = chain[-1], 0, 0
        told: Json = {"attempt": number, "state": job.state}
        for number in chain:
            if isinstance(seen, int) and number < seen:
                continue
            known = isinstance(at, list) and seen in (0, None, number)
            output_at, error_at = map(int, at) if known and isinstance(at, list) else (0, 0)
            asked = pb.LogsRequest(
                job=str(job.id),
                attempt=number,
                output_at=output_at,
                error_at=error_at,
                asks_cut=True,
            )
            told |= {"attempt": number, "continued": number != chain[0]}
            async for piece in self._pieces(attempts[number].host, asked):
                if piece.trouble:
                    raise Unavailable(f"{attempts[number].host}: {piece.trouble}")
                if piece.cut:
                    told["warning"] = cut_short(attempts[number].host)
                if not (piece.output or piece.error):
                    break
                data = [base64.b64encode(data).decode() for data in (piece.output, piece.error)]
                told |= {"data": data, "at": [piece.output_at, piece.error_at]}
                return told | {"more": True, "dropped_bytes": piece.dropped_bytes}
        alive = attempts[number].state in ("leased", "running", "suspended")
        more = alive or (wanted is None and not ended)
        return told | {"data": [], "at": [output_at, error_at], "more": more}

    async def _pieces(self, host: str, asked: pb.LogsRequest) -> AsyncIterator[pb.LogsPiece]:
        """Raises Refusal if its host is away."""
        try:
            async for piece in self._queue().logs(host, asked):
                yield piece
        except Unavailable as problem:
            raise Refusal(str(problem), AWAY) from None


def shown_of(job: pb.JobTold, ended: bool) -> list[int]:
    """The attempts whose output is the job's: those that stopped at a checkpoint, and the last,
    unless it may be cut off and begin anew: then nobody is to see what it printed."""
    kept = [one.number for one in job.attempts if one.state == CHECKPOINT]
    ran = job.started or job.state == "lost" or not ended  # else its last attempt never began
    if job.attempt and job.attempt not in kept and ran and (job.is_final or ended):
        kept.append(job.attempt)
    return kept


def whole(value: object) -> int:
    """Raises ValueError."""
    if not isinstance(value, int) or not 0 < value < 1 << 31:
        raise ValueError("slots must be a number above 0")
    return value


def selectors_of(question: Json) -> list[str]:
    """Raises ValueError if there are none."""
    given = question.get("ids")
    if not isinstance(given, list) or not given:
        raise ValueError("ids must be a list of selectors")
    return [str(one) for one in given]


def queued_json(job: pb.JobTold) -> Json:
    """The object of the contract; absent values are null."""
    told: Json = {
        "id": str(job.id),
        "name": job.name or None,
        "command": [os.fsdecode(part) for part in job.command],
        "user": job.user,
        "origin": job.origin,
        "host": job.host or None,
        "state": job.state,
        "attempt": job.attempt,
        "tier": job.tier,
        "exit_status": job.exit_status if job.HasField("exit_status") else None,
        "submitted": job.submitted,
        "started": job.started or None,
        "finished": job.finished or None,
        "cpu_s": job.cpu_s if job.HasField("cpu_s") else None,
        "slots": job.slots,
        "slots_most": job.slots_most or job.slots,
        "array_index": job.array_index if job.HasField("array_index") else None,
        "reason": job.reason or None,
        "priority": job.priority,
        "predicted_wait_s": job.predicted_wait_s if job.HasField("predicted_wait_s") else None,
        "predicted_by": job.predicted_by or None,
    }
    if job.attempts:
        told["attempts"] = [attempt_json(one) for one in job.attempts]
    return told


def attempt_json(attempt: pb.AttemptTold) -> Json:
    return {
        "number": attempt.number,
        "host": attempt.host,
        "tier": attempt.tier,
        "state": attempt.state,
        "cutoff_s": attempt.cutoff_s or None,
        "started": attempt.started or None,
        "finished": attempt.finished or None,
        "cpu_s": attempt.cpu_s if attempt.HasField("cpu_s") else None,
        "exit_status": attempt.exit_status if attempt.HasField("exit_status") else None,
        "reason": attempt.reason or None,
        "slots": attempt.slots or 1,
    }
