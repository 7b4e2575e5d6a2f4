"""An attempt of the queue's, handed from one LBM of its host to the next.

Its output goes to files, so there is no stream to keep; and the keeper ends it with its lease, also
while no LBM is there.
"""

import signal

from lbd.lbm.attempt import Attempt
from lbd.lbm.link import Begun
from lbd.rpc.gen.handover_pb2 import HeldAttempt


class AdoptedAttempt(Attempt):
    """Restored from what `save` has written; `go_on` in place of `run`."""

    @staticmethod
    def save(attempt: Attempt) -> HeldAttempt | None:
        """None: it has not begun, and is not to."""
        spawned = attempt._spawned
        held = HeldAttempt(
            start=attempt._start.SerializeToString(),
            began_s=attempt._began_s,
            cause=attempt._cause,
            reason=attempt._reason,
            wish=attempt.wish,
        )
        if attempt.over:
            return held
        if attempt._told_to_end is not None:
            held.told_to_end = attempt._told_to_end
        if spawned is None or not attempt.begun or spawned.exited.done():
            return None
        begun = spawned.begun.result()
        held.pid, held.group = begun.pid, begun.group
        job = attempt._host.jobs.running.get(attempt.name)
        held.started = (job.started if job is not None else None) or 0.0
        held.stage = attempt._stage.path if attempt._stage is not None else b""
        return held

    def restore(self, held: HeldAttempt) -> None:
        """Raises DecodeError."""
        self._take_stage()
        self._cause, self._reason, self.wish = held.cause, held.reason, held.wish
        self._keeper, self._waits = self._host.link.pid, False
        if held.HasField("end"):
            self.over = True
            return
        if held.HasField("told_to_end"):
            self._told_to_end = held.told_to_end
        if self._stage is not None:
            self._stage.adopt(held.stage)
        begun = Begun(held.pid, held.group)
        self._spawned = self._host.link.adopt(self.name, self._stopped, begun, None)
        self._host.slots.hold(self.name, self._request.user, self._start.slots)
        self._spawned.exited.add_done_callback(lambda _: self._free_slot())
        self._has_begun(begun, held.began_s, held.started)

    async def go_on(self) -> None:
        if self.over:
            return
        if self._told_to_end in (0, signal.SIGKILL):  # nobody else sees to the end of its grace
            self.stop(self._told_to_end)
        await self._follow()
