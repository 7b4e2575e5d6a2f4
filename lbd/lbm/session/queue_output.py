"""A piece of a queued job's output, for `lbctl logs`, the web page and programs, which ask for one
after the other.

What they say of the last piece is all that is known of it here: so a client that follows a job
also survives our restart.
"""

import asyncio
import base64

from lbd.errors import Unavailable
from lbd.lbm.queue.dispatcher_client import CHECKPOINT, DispatcherClient
from lbd.lbm.queue.logs import PLACE_MAX, why_not_whole
from lbd.lbm.queue.other_spools import Unending, first_piece, sent_bytes
from lbd.lbm.session.queue_json import name_of, why_no_output
from lbd.local.json_socket import AWAY, Json, Refusal
from lbd.model import ENDED_NAMES
from lbd.net.gen import dispatch_pb2 as pb

ALIVE = ("leased", "running", "suspended")
OUTPUT_S = 10.0  # for hosts that keep a job's output; clients also wait while the queue is asked


async def piece_of(job: pb.JobInfo, question: Json, queue: DispatcherClient) -> Json:
    """Returns what follows the last piece. Raises LbdError, ValueError."""
    wanted, seen, at = map(question.get, ("attempt", "seen_attempt", "at"))
    ended = job.state in ENDED_NAMES
    chain = [wanted] if isinstance(wanted, int) else shown_of(job, ended)
    attempts = {one.number: one for one in job.attempts}
    if not chain or chain[-1] not in attempts:
        if wanted is not None:
            raise Refusal(f"job {name_of(job)} has no attempt {wanted}")
        if ended:
            raise Refusal(why_no_output(job), "unavailable")
        # A client that has seen some of it continues from there once the attempt is known again.
        return {"data": [], "at": at or [0, 0], "attempt": 0, "more": True, "state": job.state}
    number, output_at, error_at, sent = chain[-1], 0, 0, 0
    reply: Json = {"attempt": number, "state": job.state}
    give_up_s = asyncio.get_running_loop().time() + OUTPUT_S
    for number in chain:
        if isinstance(seen, int) and number < seen:
            continue
        known = at is not None and seen in (0, None, number)
        output_at, error_at, sent = places_of(at) if known else (0, 0, 0)
        asked = pb.LogsRequest(
            job=str(job.id), attempt=number, output_at=output_at, error_at=error_at
        )
        reply |= {"attempt": number, "continued": number != chain[0]}
        attempt = attempts[number]
        piece = await first_piece(queue.spools, attempt.host, asked, give_up_s)
        if piece.trouble and number == chain[-1]:
            raise Unavailable(f"{attempt.host}: {piece.trouble}")
        if piece.cut or piece.trouble:
            reply["warning"] = why_not_whole(attempt.host, piece)
        if piece.output or piece.error:
            if attempt.state not in ALIVE:
                sent = sent_since_its_end(attempt.host, piece, sent, queue.kept_bytes)
            data = [base64.b64encode(data).decode() for data in (piece.output, piece.error)]
            reply |= {"data": data, "at": [piece.output_at, piece.error_at, sent]}
            return reply | {"more": True, "dropped_bytes": piece.dropped_bytes}
    more = attempts[number].state in ALIVE or (wanted is None and not ended)
    return reply | {"data": [], "at": [output_at, error_at, sent], "more": more}


def shown_of(job: pb.JobInfo, ended: bool) -> list[int]:
    """The attempts whose output is the job's: those that stopped at a checkpoint, and the last. The
    last is left out if it may be ended and start again: nobody shall see its output then."""
    kept = [one.number for one in job.attempts if one.state == CHECKPOINT]
    ran = job.started or job.state == "lost" or not ended  # otherwise its last attempt never began
    if job.attempt and job.attempt not in kept and ran and (job.is_final or ended):
        kept.append(job.attempt)
    return kept


def places_of(at: object) -> tuple[int, int, int]:
    """The positions in the outputs where the next piece begins, and how much has been sent since
    the attempt ended. Raises ValueError."""
    places = at if isinstance(at, list) and len(at) in (2, 3) else [-1]
    if not all(isinstance(one, int) and 0 <= one < PLACE_MAX for one in places):
        raise ValueError("at must be what the last answer said")
    return places[0], places[1], places[2] if places[2:] else 0


def sent_since_its_end(host: str, piece: pb.LogsPiece, before_bytes: int, kept_bytes: int) -> int:
    """Raises Refusal as if that host were away, so that nobody asks it about other tasks."""
    try:
        return sent_bytes(host, piece, before_bytes, kept_bytes)
    except Unending as problem:
        raise Refusal(str(problem), AWAY) from None
