"""Bounds on what the dispatcher sends: its host may have been taken over.

It may start commands here, so it is trusted about these. But its messages must not fill this host's
memory, must not block other work here by taking seconds to process, and must not attach words to
attempts that no other dispatcher would accept from this host.
"""

from collections import Counter
from dataclasses import dataclass, field

from lbd.config.dispatch import LEASE_S_MAX, LEASE_S_MIN
from lbd.lbm.core.execution_events import ReportRefused
from lbd.lbm.core.journey_events import Refused
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.job_limits import HELD_MAX
from lbd.text.one_line import one_line

SAID_MAX = 100_000  # orders and named attempts in one message
WORD_CHARS_MAX = 255  # as much as a dispatcher accepts from a host
MODE_CHARS_MAX = 40
# Of held attempts' orders; no user keeps the others' out.
HELD_BYTES_MAX, HELD_OF_USER = 512 << 20, 128 << 20
WORD_BYTES = 96  # that each word of an order takes here, besides what it says
TOO_MUCH = "it has too many orders pending"
OWN_TOO_MUCH = "it has too many long orders of this user"


def read_down(message: bytes) -> pb.WorkDown:
    """Reads a message of the dispatcher. Raises DecodeError, ValueError."""
    down = parsed(pb.WorkDown, message, messages_max=2 * SAID_MAX)
    named = len(down.reply.renewed) + len(down.settled) + len(down.released)
    if named + len(down.stops) + len(down.starts) > SAID_MAX:
        raise ValueError(f"more than {SAID_MAX} orders at once")
    if any(len(stop.stop_reason) > WORD_CHARS_MAX for stop in down.stops):
        raise ValueError(f"a stop reason of more than {WORD_CHARS_MAX} characters")
    if down.HasField("reply") and not LEASE_S_MIN <= down.reply.lease_s <= LEASE_S_MAX:
        raise ValueError(f"a lease of {down.reply.lease_s} s")
    if down.reply.mode:
        down.reply.mode = one_line(down.reply.mode, MODE_CHARS_MAX)
    return down


def order_bytes(start: pb.Start, request: lbm_pb2.RunRequest) -> int:
    """About what an order takes in memory, once its request has been read."""
    words = len(request.argv) + len(request.environment) + len(request.excluded)
    return start.ByteSize() + WORD_BYTES * (words + len(request.limits))


@dataclass(slots=True)
class HeldOrders:
    """How many orders this host holds, and what they take in memory."""

    number: int = 0
    all_bytes: int = 0
    of_user: Counter[str] = field(default_factory=Counter)

    def change(self, user: str, order_bytes: int, sign: int) -> None:
        self.number += sign
        self.all_bytes += sign * order_bytes
        self.of_user[user] += sign * order_bytes
        if not self.of_user[user]:
            del self.of_user[user]

    def why_not(self, start: pb.Start) -> str:
        """Returns why this one is too much; "" if it is not."""
        more = start.ByteSize()
        if self.of_user[start.user] + more > HELD_OF_USER:
            return OWN_TOO_MUCH
        is_too_much = self.number >= HELD_MAX or self.all_bytes + more > HELD_BYTES_MAX
        return TOO_MUCH if is_too_much else ""


def refusal(start: pb.Start, phase: str, reason: str) -> pb.AttemptReport:
    job, number = start.job[:WORD_CHARS_MAX], start.attempt
    return pb.AttemptReport(job=job, attempt=number, event="refused", phase=phase, reason=reason)


def refused_report(refused: ReportRefused, *, is_staged: bool) -> pb.AttemptReport:
    """Gives the reason and, unless files were taken along, its remedy, as `lbrun` does without the
    queue."""
    reason, phase, number = refused.reason, refused.phase, refused.number
    if not is_staged:
        reason = Refused(reason, phase, number).advice
    return pb.AttemptReport(
        event="refused", reason=reason, phase=phase, errno=number, wait_s=refused.wait_s
    )
