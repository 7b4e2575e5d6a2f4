"""What `lbctl` asks of the queue, by way of this host's LBM: jobs, their output, acts on them.

Nothing here waits for long: a client that follows asks again, so it also outlives us.
"""

import asyncio
import base64
import contextlib
import os

from lbd.errors import Unavailable
from lbd.lbm.caller import user_name
from lbd.lbm.home import Home
from lbd.lbm.queue_client import QueueClient
from lbd.lbm.state import ENDED_STATES
from lbd.rpc.admins import Admins
from lbd.rpc.gen import dispatch_pb2 as pb
from lbd.rpc.local import Caller, Json, Refusal

PATIENCE_MAX_S = 20.0
ENDED = {state.value for state in ENDED_STATES}


class QueueAnswers:
    def __init__(self, home: Home, admins: Admins) -> None:
        self._home = home
        self._admins = admins

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        operation = question["op"]
        if operation == "queue.jobs":
            told = await self._find(question, caller, attempts=bool(question.get("attempts")))
            return {"jobs": [queued_json(job) for job in told]}
        if operation == "queue.act":
            return await self._act(question, caller)
        if operation == "queue.wait":
            return await self._wait(question, caller)
        if operation == "queue.logs":
            return await self._logs(question, caller)
        raise Refusal(f"unknown operation {operation!r}")

    async def jobs(self, everything: bool, user: str) -> list[Json]:
        """For `lbctl jobs`: those of `user`, of everybody if that is "". Raises Unavailable."""
        told = await self._queue().jobs(pb.JobsAsked(ended_too=everything))
        return [queued_json(job) for job in told.jobs if not user or job.user == user]

    def _queue(self) -> QueueClient:
        if self._home.queue is None or not self._home.config.dispatch.host:
            raise Unavailable("this cluster has no queue (dispatch.host names no host)")
        return self._home.queue

    async def _find(
        self, question: Json, caller: Caller, *, attempts: bool = False
    ) -> list[pb.JobTold]:
        """The jobs that are meant, as far as the caller may see them. Raises LbdError."""
        user = user_name(caller.uid)
        asked = pb.JobsAsked(
            selectors=selectors_of(question), user=user, ended_too=True, with_attempts=attempts
        )
        told = await self._queue().jobs(asked)
        if told.error:
            raise Refusal(told.error)
        jobs = [job for job in told.jobs if job.user == user or self._admins.include(caller)]
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
                is_admin=self._admins.include(caller),
                signal=number if isinstance(number, int) else 0,
            )
        )
        return {"done": list(reply.done), "errors": list(reply.errors)}

    async def _wait(self, question: Json, caller: Caller) -> Json:
        """Those of the jobs that have ended, once all have or after a while."""
        jobs = await self._find(question, caller)
        waiting = [str(job.id) for job in jobs if job.state not in ENDED]
        ended = [job for job in jobs if job.state in ENDED]
        asked_s = question.get("patience_s", 0.0)
        patience_s = float(asked_s) if isinstance(asked_s, int | float) else 0.0
        if waiting and patience_s > 0:
            asked = pb.JobsAsked(selectors=ranges_of(waiting), once_ended=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(patience_s, PATIENCE_MAX_S)):
                    async for told in self._queue().watch(asked):
                        ended += told.jobs
        return {"open": len(jobs) - len(ended), "jobs": [queued_json(job) for job in ended]}

    async def _logs(self, question: Json, caller: Caller) -> Json:
        """A piece of one attempt's output, from where the last piece ended."""
        found = await self._find(question, caller, attempts=True)
        if len(found) != 1:
            raise Refusal("output is shown of one job at a time")
        job = found[0]
        wanted = question.get("attempt")
        number = wanted if isinstance(wanted, int) else job.attempt
        attempt = next((one for one in job.attempts if one.number == number), None)
        ended = job.state in ENDED
        if attempt is None:
            if wanted is not None or ended:
                raise Refusal(f"job {job.id} has no attempt {wanted or ''}".rstrip())
            return {"data": [], "at": [0, 0], "attempt": 0, "more": True, "state": job.state}
        at = question.get("at")
        output_at, error_at = map(int, at) if isinstance(at, list) else (0, 0)
        if question.get("seen_attempt") not in (0, None, number):
            output_at = error_at = 0
        alive = attempt.state in ("leased", "running", "suspended")
        held_back = wanted is None and not (job.is_final or ended)
        if held_back:  # it may be cut off and begin anew: nobody is to see what it printed
            return {"data": [], "at": [0, 0], "attempt": 0, "more": True, "state": job.state}
        asked = pb.LogsRequest(
            job=str(job.id), attempt=number, output_at=output_at, error_at=error_at
        )
        async for piece in self._queue().logs(attempt.host, asked):
            if piece.trouble:
                raise Unavailable(f"{attempt.host}: {piece.trouble}")
            shown = [base64.b64encode(data).decode() for data in (piece.output, piece.error)]
            return {
                "data": shown,
                "at": [piece.output_at, piece.error_at],
                "attempt": number,
                "more": True,
                "dropped_bytes": piece.dropped_bytes,
                "state": job.state,
            }
        more = alive or (wanted is None and not ended)
        at_now = [output_at, error_at]
        return {"data": [], "at": at_now, "attempt": number, "more": more, "state": job.state}


def selectors_of(question: Json) -> list[str]:
    """Raises ValueError if there are none."""
    given = question.get("ids")
    if not isinstance(given, list) or not given:
        raise ValueError("ids must be a list of selectors")
    return [str(one) for one in given]


def ranges_of(ids: list[str]) -> list[str]:
    """The same jobs in fewer selectors."""
    numbers = sorted(map(int, ids))
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return [f"{first}-{last}" for first, last in ranges]


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
        "array_index": job.array_index if job.HasField("array_index") else None,
        "reason": job.reason or None,
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
    }
