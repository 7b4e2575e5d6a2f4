"""A local user's command that has left, handed from one LBM of its host to the next."""

from typing import Protocol

from lbd.lbm.bundle import Bundle, Given
from lbd.lbm.client import Client
from lbd.lbm.conversation import Conversation
from lbd.lbm.home import Home, Where
from lbd.lbm.origin import Command
from lbd.lbm.remote import RemoteRun
from lbd.lbm.request import ClientRequest
from lbd.model import HostId, JobId
from lbd.rpc.gen.handover_pb2 import HeldCommand, HeldRun


class Talks(Protocol):
    """The conversations that go on."""

    def of(self, run: HeldRun) -> Conversation: ...


class AdoptedCommand(Command):
    """Restored from what `save` has written; `run` goes on with it."""

    @staticmethod
    def save(command: Command, bundle: Bundle) -> HeldCommand:
        """Of one that may have been sent, or that stays. Between two steps of the event loop, after
        which there are none. Raises NotNow.
        """
        job, where = command.job, command._where
        capped = any(job.id in level for level in command._home.cap.running.values())
        staging = command._staging
        return HeldCommand(
            job=job.id,
            submitted=job.submitted,
            started=job.started or 0.0,
            reason=where.reason or job.reason,
            host=where.host or job.host,
            address=where.address,
            charged=command._charged,
            asked_lim=command._asked_lim,
            excluded=command._excluded,
            kept=command._kept,
            begun=command._begun,
            capped=capped,
            run=command._remote.save(bundle) if command._remote is not None else None,
            stage=staging.run.save(bundle) if staging is not None else None,
        )

    @staticmethod
    def has_left(command: Command) -> bool:
        """May it be elsewhere by now?"""
        return command._remote is not None and command._remote.was_sent

    @staticmethod
    def is_moving_files(command: Command) -> bool:
        return command._staging is not None and command._staging.is_busy

    @staticmethod
    def withdraw(command: Command) -> list[int]:
        """It is asked for anew, so the LIM is to forget it; the signals that have come for it."""
        command._home.notes.ended(command.job.id, command.job.host, charged=command._charged)
        return [command._interrupted_by] if command._interrupted_by else []

    def restore(self, held: HeldCommand, talks: Talks, given: Given) -> None:
        """Raises OSError, KeyError, ValueError."""
        self._where = Where("there", HostId(held.host), held.address, held.reason)
        self._charged, self._asked_lim, self._kept = held.charged, held.asked_lim, held.kept
        self._excluded = {HostId(host) for host in held.excluded}
        self._begun = held.begun
        if held.capped:
            self._home.cap.running.setdefault(self._request.depth, set()).add(self.job.id)
        if held.started:
            self.job.start(self._where.host, held.reason, held.started)
        streams = self._home.streams
        if held.HasField("run") and streams is not None:
            place, threads = (held.host, held.address), self._home.threads.of(self._uid)
            self._remote = RemoteRun(self._home.config.lbm, streams, *place, threads)
            self._remote.restore(held.run, talks.of(held.run), given)
        if held.HasField("stage") and streams is not None:
            self._staging = self._stage_on(self._where, streams)
            self._staging.run.restore(held.stage, talks.of(held.stage), given)


def adopt(
    home: Home,
    client: Client,
    request: ClientRequest,
    caller: tuple[str, int],
    held: HeldCommand,
) -> AdoptedCommand:
    """`caller`: user and uid."""
    command = AdoptedCommand(home, client, request, *caller)
    command.job.id, command.job.submitted = JobId(held.job), held.submitted
    return command
