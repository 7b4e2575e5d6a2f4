"""The answers to `lbctl` about the queue, through this host's LBM: jobs, their output, actions.

No answer waits for long: a client that follows asks again, so it also survives our restart.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from lbd.errors import Unavailable
from lbd.keeper.local_account import NO_UID, Asker, is_same
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.queue.dispatcher_client import NO_QUEUE, DispatcherClient
from lbd.lbm.session.job_records import attempt_json, given_json, job_json, needs_json
from lbd.lbm.session.queue_json import (
    LeftOut,
    acted_json,
    array_json,
    calibration_json,
    cause_of,
    counts_json,
    expected_end,
    interval,
    name_of,
    not_yours,
    numbers_left,
    prediction_json,
    speedup_json,
    speedup_of,
    target_json,
    update_of,
    which_task,
)
from lbd.lbm.session.queue_output import piece_of
from lbd.lbm.session.usage_questions import moment, short
from lbd.local.admins import Admins
from lbd.local.caller import Caller
from lbd.local.json_socket import SEVERAL, Json, Refusal, bounded_s
from lbd.local.long_answers import in_turns
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.policy.invocation import key_of
from lbd.text.needs_words import needs_text, read_needs_text
from lbd.text.one_line import one_line

PATIENCE_MAX_S = 20.0  # for one answer
AGAIN_S = 1.0
FULL_CHARS = 300
ABSENT_MAX, ABSENT_CHARS = 20, 400


def as_json(tags: pb.TagsInfo) -> Json:
    from google.protobuf.json_format import MessageToDict  # only for this rare question

    found: Json = MessageToDict(
        tags, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return found


class QueueAnswers:
    def __init__(self, home: OutboundContext, admins: Admins) -> None:
        self._home = home
        self._admins = admins

    async def answer(self, question: Json, caller: Caller) -> Json:
        """Raises LbdError, KeyError, TypeError, ValueError."""
        operation = question["op"]
        if operation == "queue.jobs":
            left_out = LeftOut()
            reply = await self.find(
                question, caller, left_out, attempts=bool(question.get("attempts")),
                by_array=not question.get("tasks"),
            )  # fmt: skip
            if (files := self._home.files) is not None:
                add_troubles(reply, files.awaited.troubles)
            shown = [queued_json(job) async for job in in_turns(reply)]
            own = self._home.config.host.name
            if files is not None and [job.origin for job in reply if job.given.fetch] == [own]:
                is_array = reply[0].HasField("array")
                shown[0]["fetched"] = not files.awaited.expects(reply[0].id, array=is_array)
            return {"jobs": shown, "absent": left_out.absent, "others": left_out.others}
        if operation == "queue.predict":
            return await self._predict(question, caller)
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

    async def jobs(self, question: Json, asker: Asker | None) -> tuple[list[Json], int]:
        """Everybody's jobs, or those of the user that the question names, if None; and how many
        older ones are left out. Raises Unavailable."""
        asked = pb.JobsAsked(
            ended_too=bool(question.get("all")), by_array=not question.get("tasks"),
            ended_since=moment(question.get("ended_since", 0.0)),
            of_user=short(question, "of_user"),
        )  # fmt: skip
        if asker:
            asked.user, asked.uid = asker.user, asker.uid
        if (reply := await self._queue().jobs(asked)).error:
            raise Unavailable(reply.error)
        seen = in_turns(reply.jobs)
        own = [queued_json(job) async for job in seen if not asker or self.is_of(asker, job)]
        return own, reply.unlisted

    def is_of(self, asker: Asker, job: pb.JobInfo) -> bool:
        uid = job.uid if job.HasField("uid") else NO_UID  # it may say anything
        return is_same(self._home.config.users, asker, Asker(job.user, uid))

    def _queue(self) -> DispatcherClient:
        if self._home.queue is None or not self._home.queue.hosts:
            raise Unavailable(NO_QUEUE)
        return self._home.queue

    async def _find_in_turn(
        self, question: Json, caller: Caller, left_out: LeftOut | None = None, *,
        attempts: bool = False, explained: bool = True, by_array: bool = False,
    ) -> list[pb.JobInfo]:  # fmt: skip
        """Like `find`, within a question whose answer takes longer."""
        async with self._home.long_answers.turn(caller.person, "queue.jobs"):
            more = {"attempts": attempts, "explained": explained, "by_array": by_array}
            return await self.find(question, caller, left_out, **more)

    async def find(
        self, question: Json, caller: Caller, left_out: LeftOut | None = None, *,
        attempts: bool = False, explained: bool = True, by_array: bool = False,
    ) -> list[pb.JobInfo]:  # fmt: skip
        """The selected jobs, as far as the caller may see them; `left_out` is told of others', and
        which do not exist, if the question allows that some do not. Raises LbdError."""
        asker = Asker(user_name(caller.uid), caller.uid)
        asked = pb.JobsAsked(
            selectors=selectors_of(question), user=asker.user, uid=asker.uid, ended_too=True,
            with_attempts=attempts, unexplained=not explained, by_array=by_array,
            some=bool(question.get("some")), unforetold=not question.get("foretold", True),
        )  # fmt: skip
        reply = await self._queue().jobs(asked)
        if reply.error:
            raise Refusal(reply.error, "missing")
        if left_out is not None:
            left_out.absent += [one_line(why, ABSENT_CHARS) for why in reply.absent[:ABSENT_MAX]]
        sees_all = self._admins.include(caller)
        seen = in_turns(reply.jobs)
        jobs = [job async for job in seen if sees_all or self.is_of(asker, job)]
        if reply.jobs and not jobs:
            raise Refusal(not_yours(reply.jobs), "denied")
        if left_out is not None and len(jobs) < len(reply.jobs):
            own = {job.id for job in jobs}
            left_out.add([job for job in reply.jobs if job.id not in own], asked)
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
                update=update_of(question),
            )
        )
        return acted_json(reply)

    async def _status(self) -> Json:
        """For `lbctl status`. Figures from heartbeats are as old as the last heartbeat."""
        queue = self._queue()
        reply = await queue.status()
        return {
            "mode": reply.mode,
            "leader": queue.leader,
            "queued": reply.queued,
            "running": reply.running,
            "closed": reply.closed,
            "in_file": reply.in_file,
            "full": one_line(reply.full, FULL_CHARS),
            "no_room": {host: one_line(why, FULL_CHARS) for host, why in reply.no_room.items()},
            "tiers": {row.host: list(row.tiers) for row in reply.tiers},
        }

    async def _predict(self, question: Json, caller: Caller) -> Json:
        slots, command = question.get("slots", 1), question.get("command")
        words = [os.fsencode(str(word)) for word in command] if isinstance(command, list) else []
        excluded = question.get("excluded")
        if question.get("calibration"):
            asked = pb.PredictAsked(calibration=True, user=user_name(caller.uid))
            reply = await self._queue().predict(asked)
            return calibration_json(reply.calibration)
        speedup, work_s = question.get("speedup"), question.get("work_s")
        asked = pb.PredictAsked(
            slots=whole(slots),
            slots_most=whole(question.get("slots_most") or slots),
            user=user_name(caller.uid),
            uid=caller.uid,
            command=key_of(words) if words else "",
            words=b"\0".join(words),
            only=str(question.get("host") or ""),
            excluded=[str(name) for name in excluded] if isinstance(excluded, list) else [],
            needs=needs_text(read_needs_text(str(question.get("needs") or ""))),
        )
        if speedup is not None:
            asked.parallelism, asked.sigma = speedup_of(speedup)
        if work_s is not None:
            asked.work_s = bounded_s(question, "work_s")
        reply = await self._queue().predict(asked)
        if reply.error:
            raise Refusal(reply.error)
        return prediction_json(reply) | {"slots": slots}

    async def _wait(self, question: Json, caller: Caller) -> Json:
        """How many have not ended, once all have or after a while; and the ended ones, unless
        `brief` is given."""
        if question.get("counts"):
            return await self._counts(question, caller)
        # Tasks are not looked at one by one, unless somebody wants to see them.
        brief = bool(question.get("brief"))
        find = partial(self._find_in_turn, question, caller, explained=False, by_array=brief)
        patience_s, left_out = bounded_s(question, "patience_s"), LeftOut()
        jobs = await find(left_out)
        waits = patience_s > 0 and bool(numbers_left(jobs))
        if waits:
            give_up_s = time.monotonic() + min(patience_s, PATIENCE_MAX_S)
            await self._until_ended(jobs, caller, give_up_s)
            jobs = await find()
            if numbers_left(jobs):  # also if their ends are not on disk yet
                await asyncio.sleep(min(AGAIN_S, max(0.0, give_up_s - time.monotonic())))
        reply = counts_json(jobs) | {"absent": left_out.absent}
        if question.get("outputs") and not reply["open"] and self._home.files is not None:
            left_s = 0.0 if waits else min(patience_s, PATIENCE_MAX_S)
            awaited = self._home.files.awaited
            if awaited.are_of(caller.uid):
                tasks = await self._find_in_turn(question, caller, explained=False)
                reply |= await awaited.answer(caller.uid, tasks, left_s)
        if not brief:
            ended = [job for job in jobs if job.state in ENDED_NAMES]
            reply["jobs"] = [queued_json(job) async for job in in_turns(ended)]
        return reply

    async def _until_ended(
        self, jobs: Sequence[pb.JobInfo], caller: Caller, give_up_s: float
    ) -> None:
        """Waits until these jobs have ended, or until then. Raises Refusal."""
        asked = pb.JobsAsked(
            selectors=numbers_left(jobs), user=user_name(caller.uid), by_number=True, all_ended=True
        )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(give_up_s - time.monotonic()):
                async for reply in self._queue().watch(asked):
                    if reply.error:
                        raise Refusal(reply.error)

    async def _counts(self, question: Json, caller: Caller) -> Json:
        """How many are in each state, for clients that ask repeatedly; if asked for `ends`, also
        when the array ends, which takes longer."""
        ends = bool(question.get("ends"))
        found = await self.find(question, caller, explained=ends, by_array=True)
        return counts_json(found) | {"expected_end": expected_end(found) if ends else None}

    async def _logs(self, question: Json, caller: Caller) -> Json:
        """A piece of one attempt's output, from the end of the last piece."""
        found = await self._find_in_turn(question | {"foretold": False}, caller, attempts=True)
        if len(found) != 1:
            if found and all(job.array_id == found[0].array_id != 0 for job in found):
                raise Refusal(which_task(found), SEVERAL)
            raise Refusal("output is shown for one job at a time")
        return await piece_of(found[0], question, self._queue())


def add_troubles(jobs: Iterable[pb.JobInfo], troubles: Mapping[int, str]) -> None:
    """Adds to the reasons of these jobs why their outputs have not come."""
    for job in jobs:
        if job.id in troubles:
            trouble = f"outputs not fetched yet: {troubles[job.id]}"
            job.reason = "; ".join(filter(None, (job.reason, trouble)))


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


def queued_json(job: pb.JobInfo) -> Json:
    """Like `job_json` for a job of the queue, with the fields that only such a job has."""
    reply = job_json(job) | {
        "tier": job.tier,
        "cpu_s": job.cpu_s if job.HasField("cpu_s") else None,
        "max_rss_bytes": job.max_rss_bytes or None,
        "signal": job.signal or None,
        "cause": one_line(cause_of(job)) or None,
        "slots": job.slots,
        "slots_least": job.slots_least or job.slots,
        "slots_most": job.slots_most or job.slots_least or job.slots,
        "array_index": job.array_index if job.HasField("array_index") else None,
        "array_id": str(job.array_id) if job.array_id else None,
        "priority": job.priority,
        "gang": job.gang or None,
        "predicted_wait_s": job.predicted_wait_s if job.HasField("predicted_wait_s") else None,
        "predicted_by": one_line(job.predicted_by) or None,
        "predicted_wait_s_90": interval(job, "predicted_low_s", "predicted_high_s"),
        "predicted_from": job.comparable,
        "foretold_wait_s": job.foretold_s if job.HasField("foretold_s") else None,
        "foretold_wait_s_90": interval(job, "foretold_low_s", "foretold_high_s"),
        "foretold_is_rough": job.foretold_is_rough,
    }
    if job.HasField("array"):
        del reply["array_index"]
        reply |= array_json(job.array)
    elif job.array_id:
        reply["id"] = name_of(job)
    if job.HasField("speedup"):
        reply["speedup"] = speedup_json(job.speedup)
    reply["target"] = target_json(job) if job.HasField("target") else None
    if job.HasField("given"):
        reply |= given_json(job.given)
    reply["needs"] = needs_json(job.needs)
    if job.attempts:
        reply["attempts"] = [attempt_json(one) for one in job.attempts]
    return reply
