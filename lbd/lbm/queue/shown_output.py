"""The output that an `lbrun -q` shows of its jobs: each attempt's from where it was last shown."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lbd.errors import LbdError
from lbd.lbm.queue.dispatcher_client import CHECKPOINT, DispatcherClient
from lbd.lbm.queue.logs import why_not_whole
from lbd.lbm.queue.other_spools import NotKept, Unending, sent_bytes
from lbd.local import client_tags as tags
from lbd.net.gen import dispatch_pb2 as pb

RETRY_S = 0.5
RETRY_FOR_S = 60.0  # for a daemon that is restarting
# for the rest of an ended attempt's output, beside what the slowest transfer takes; and for that of
# the next attempt on a host that took longer
SILENT_S, SILENT_AGAIN_S = 20.0, 1.0
SLOWEST_BYTES_PER_S = 1 << 16  # slower ones would hold up the outputs of other tasks
UNENDED_MAX = 3  # answers that are not ended cost their whole time


@dataclass(slots=True)
class Shown:
    """How far one attempt's output has been shown."""

    output: int = 0
    error: int = 0
    cut: bool = False  # the user was told that it was cut short


@dataclass(slots=True)
class Patience:
    """Patience with a daemon that is away, counted from when it was missed, not from when it last
    had something to say. Pure."""

    limit_s: float
    since_s: float | None = None  # since when there is no answer

    def heard(self) -> None:
        self.since_s = None

    def lasts_s(self, now_s: float) -> float:
        """Notes that it was asked in vain now; returns for how long already."""
        self.since_s = now_s if self.since_s is None else self.since_s
        return now_s - self.since_s

    def ends(self, now_s: float) -> bool:
        return self.lasts_s(now_s) >= self.limit_s


@dataclass(slots=True)
class ShownOutput:
    queue: DispatcherClient
    user: str
    ledger: str  # that has the jobs
    send: Callable[[bytes, bytes], Awaitable[None]]
    _shown: dict[int, dict[int, Shown]] = field(default_factory=dict)  # by job and attempt
    _given_up: set[str] = field(default_factory=set)  # hosts last asked in vain
    _unending: set[str] = field(default_factory=set)  # hosts that did not end their last answer
    _unended: Counter[str] = field(default_factory=Counter)  # such answers of each host

    async def show(self, job: pb.JobInfo, *, follow: bool) -> None:
        """Shows the output that was not shown yet; with `follow` until its attempt has ended."""
        continued = await self._continued(job)
        for number, host in continued:
            await self._show_attempt(job.id, number, host, follow=False)
        if not job.started and job.state != "lost":  # it was about to begin, and never did
            return
        if job.attempt not in self._shown.setdefault(job.id, {}):
            await self._report_vain(job, {number for number, _ in continued})
        # A job that has just ended was running a moment ago, and so was its host, unless both were
        # lost.
        patience_s = 0.0 if follow or job.state == "lost" else RETRY_FOR_S
        await self._show_attempt(
            job.id, job.attempt, job.host, follow=follow, patience_s=patience_s
        )

    def forget(self, job: int) -> None:
        self._shown.pop(job, None)

    async def _report_vain(self, job: pb.JobInfo, continued: set[int]) -> None:
        """Warns if a shown attempt is repeated, so that both are not taken for one output."""
        vain = [
            number
            for number, shown in self._shown[job.id].items()
            if number not in continued and shown.output + shown.error
        ]
        if vain:
            text = f"attempt {max(vain)} failed; this is attempt {job.attempt}"
            await self.send(tags.WARN, text.encode())

    async def _continued(self, job: pb.JobInfo) -> list[tuple[int, str]]:
        """The attempts before its last one that stopped at a checkpoint."""
        if job.attempt < 2:
            return []
        try:
            asked = pb.JobsAsked(
                selectors=[str(job.id)], ended_too=True, with_attempts=True, user=self.user,
                by_number=True,
            )  # fmt: skip
            reply = await self.queue.jobs(asked, self.ledger)
        except LbdError:
            return []
        found = [one for row in reply.jobs for one in row.attempts if one.number < job.attempt]
        return [(one.number, one.host) for one in found if one.state == CHECKPOINT]

    async def _show_attempt(
        self, job: int, number: int, host: str, *, follow: bool, patience_s: float = 0.0
    ) -> None:
        """A host that is away is asked again for `patience_s`, but for one job only."""
        patience = Patience(0.0 if host in self._given_up else patience_s)
        while True:
            try:
                await self._show_pieces(job, number, host, follow=follow)
                self._given_up.discard(host)
                if self._unended[host] < UNENDED_MAX:  # it was restarted, or its disk was slow
                    self._unending.discard(host)
                return
            except LbdError as problem:
                if follow:
                    return  # it is asked again once the attempt has ended
                if isinstance(problem, NotKept):
                    await self.send(tags.WARN, f"job {job}: {problem}".encode())
                    return
                if isinstance(problem, Unending):
                    self._unending.add(host)
                    self._unended[host] += 1
                if host in self._unending or patience.ends(asyncio.get_running_loop().time()):
                    self._given_up.add(host)
                    text = f"job {job}: {problem}; its output once {host} is back: lbctl logs {job}"
                    await self.send(tags.WARN, text.encode())
                    return
            await asyncio.sleep(RETRY_S)

    async def _show_pieces(self, job: int, number: int, host: str, *, follow: bool) -> None:
        shown = self._shown.setdefault(job, {}).setdefault(number, Shown())
        asked = pb.LogsRequest(
            job=str(job),
            attempt=number,
            output_at=shown.output,
            error_at=shown.error,
            follow=follow,
        )
        limit_s = SILENT_AGAIN_S if host in self._unending else SILENT_S
        sent = 0
        now_s = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(None if follow else limit_s) as patience:
                async for piece in self.queue.spools.logs(host, asked):
                    ends_s, came_s = patience.when(), now_s()
                    patience.reschedule(None)  # its reader may take any time
                    size = await self._show_piece(shown, host, piece)
                    if ends_s is None:
                        continue
                    sent = sent_bytes(host, piece, sent, self.queue.kept_bytes)
                    read_s = now_s() - came_s if size else 0.0
                    patience.reschedule(ends_s + read_s + size / SLOWEST_BYTES_PER_S)
        except TimeoutError:
            raise Unending(f"{host} does not send the rest of its output, or too slowly") from None

    async def _show_piece(self, shown: Shown, host: str, piece: pb.LogsPiece) -> int:
        """Returns how many bytes of output were in it. Raises NotKept."""
        if piece.trouble:
            raise NotKept(piece.trouble)
        shown.output, shown.error = piece.output_at, piece.error_at
        if piece.dropped_bytes:
            text = f"{piece.dropped_bytes} bytes of output were dropped here"
            await self.send(tags.WARN, text.encode())
        if piece.cut and not shown.cut:
            shown.cut = True
            await self.send(tags.WARN, why_not_whole(host, piece).encode())
        if piece.output:
            await self.send(tags.OUTPUT, piece.output)
        if piece.error:
            await self.send(tags.ERRORS, piece.error)
        return len(piece.output) + len(piece.error)
