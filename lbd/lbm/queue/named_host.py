"""Asks the host that a queued job's user names by -H whether it refuses the job, for good or until
other hours, before it is queued (`lbrun -q`, `-d`).

Otherwise the job would wait there for a slot, only to be refused once it has one, and its user
would not be told of these hours. Only the owner's rules and the account count, because a missing
program or directory may be there by then. The jobs that a job waits for may also change the rules,
so then its host is not asked, nor for a job that may be in the queue already (--idempotency-key). A
host that does not answer soon is asked later by the dispatcher. This host is asked like any other,
as its rules apply to its own users' jobs, too.
"""

from lbd.errors import LbdError
from lbd.lbm.inbound.context import NOT_YET
from lbd.lbm.outbound.context import OutboundContext
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.job_phrases import refused_for_now
from lbd.text.one_line import one_line

ANSWER_S = 2.0
ANSWER_DETACHED_S = 0.5  # a script may queue thousands
PATH = b"PATH="


ACCEPTED = "", False


async def why_refused(
    home: OutboundContext, asked: pb.SubmitRequest, answer_s: float = ANSWER_S
) -> tuple[str, bool]:
    """Returns why it is refused, and whether for good; "" if it may run there, or that is unknown
    after `answer_s`."""
    if not asked.only or asked.key or asked.after or asked.HasField("not_before"):
        return ACCEPTED
    run = parsed(lbm_pb2.RunRequest, asked.spec.run_request)
    question = lbm_pb2.RunRequest(
        job_id="check",
        origin=run.origin,
        user=run.user,
        uid=run.uid,
        argv=run.argv[:1],  # a program with a directory in its name is not found there
        environment=[entry for entry in run.environment if entry.startswith(PATH)],
        directory=b"/",
    )
    try:
        host = await home.cluster.peer(asked.only)
        if not host.is_up:
            return ACCEPTED
        ask, reply = home.cluster.ask, lbm_pb2.CheckReply
        found = await ask(run.uid, host, "Check", question, reply, answer_s)
    except LbdError:
        return ACCEPTED
    if not (found.for_good or found.phase == NOT_YET):
        return ACCEPTED
    why = one_line(found.reason)
    if found.for_good:
        return f"{asked.only}: {why}", True
    return refused_for_now(asked.only, why), False
