"""A foreign job that goes from one LBM of its host to the next, its process untouched.

The keeper is its parent and stays; what passes on is our side of it: the ends of its pipes, what is
in between, and what has been agreed with its origin.
"""

import time

from lbd.lbm.agent import ForeignJob
from lbd.lbm.bundle import Bundle, Given, NotNow
from lbd.lbm.ends import JobEnds
from lbd.lbm.link import Begun, Exit, NotStarted
from lbd.lbm.orders import explain, stage_of
from lbd.model import JobId, JobState
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.gen.handover_pb2 import HeldExit, HeldJob


class AdoptedJob(ForeignJob):
    """Restored from what `save` has written; `go_on` in place of `serve`."""

    @classmethod
    def save(cls, job: ForeignJob, bundle: Bundle) -> HeldJob | None:
        """None: it has not been started, its request says it all. Raises NotNow.

        Between two steps of the event loop, after which there are none.
        """
        if job.is_spawning:
            raise NotNow
        if job._spawned is None or job._ends is None:
            return None
        ends = job._ends.save(bundle)
        held = cls.save_without_ends(job)
        held.ends.CopyFrom(ends)
        return held

    @staticmethod
    def save_without_ends(job: ForeignJob) -> HeldJob:
        """Of one that nobody waits for any more."""
        held = HeldJob(
            job=job.id,
            number=job.talk.number,
            request=job._request.SerializeToString(),
            note=job._note,
            began_s=job._began_s,
            cause=job._cause,
            stopped=job._is_stopped,
            kill_at_s=job._kill_at_s,
            slots=job._host.slots.widths.get(job.id, 0),
        )
        spawned = job._spawned
        if spawned is not None and spawned.begun.done():
            begun = spawned.begun.result()
            held.pid, held.group = begun.pid, begun.group
        if spawned is not None and spawned.exited.done():
            held.exit.CopyFrom(exit_message(spawned.exited.result()))
        known = job._host.jobs.running.get(job.id)
        if known is not None:
            held.submitted, held.started = known.submitted, known.started or 0.0
        return held

    def restore(self, held: HeldJob, given: Given) -> None:
        """Raises OSError, ValueError, KeyError."""
        self._request = lbm_pb2.RunRequest.FromString(held.request)
        self._id = JobId(self._request.job_id)
        job = self._named(held.submitted)
        self._note, self._cause, self._is_stopped = held.note, held.cause, held.stopped
        self._kill_at_s = held.kill_at_s
        if held.HasField("ends"):
            self._ends = JobEnds(self._request, self._talk, self._host.config.lbm.chunk_bytes)
            self._ends.restore(held.ends, given)
        begun = Begun(held.pid, held.group) if held.pid else None
        ended = exit_of(held.exit) if held.HasField("exit") else None
        self._spawned = self._host.link.adopt(self._id, self._stopped, begun, ended)
        if ended is None:
            job.started = held.started or None
            job.state = JobState.SUSPENDED if held.stopped else JobState.RUNNING
            self._host.jobs.add(job)
            self._host.slots.hold(self._id, self._request.user, held.slots or 1)
            self._spawned.exited.add_done_callback(self._over)
        if begun is not None:
            self._has_begun(begun, held.began_s)
        if held.kill_at_s and ended is None:
            self._see_to_its_end(terminate=False)

    async def go_on(self) -> None:
        """Until its end, or until nobody waits for it any more."""
        assert self._spawned is not None
        assert self._ends is not None
        try:
            if not self._began_s:
                self._has_begun(await self._wait_until_begun(self._spawned), time.monotonic())
                self._say_that_it_began()
            await self._follow()
        except NotStarted as trouble:
            self._ends.close()
            self._spawned = None
            reason = explain(self._request, trouble)
            self._refuse(reason, stage_of(trouble), try_another=True, number=trouble.number)
        finally:
            if self._spawned is not None and not self._spawned.exited.done():
                self._end("lost")


def exit_message(ended: Exit) -> HeldExit:
    return HeldExit(
        wait_status=ended.wait_status,
        user_cpu_s=ended.user_cpu_s,
        system_cpu_s=ended.system_cpu_s,
        max_rss_bytes=ended.max_rss_bytes,
        out_of_memory=ended.out_of_memory,
        over=ended.over,
    )


def exit_of(held: HeldExit) -> Exit:
    return Exit(
        held.wait_status,
        held.user_cpu_s,
        held.system_cpu_s,
        held.max_rss_bytes,
        held.out_of_memory,
        held.over,
    )
