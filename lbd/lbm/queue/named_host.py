"""Asks the host that `lbrun -q -H` names whether it refuses the job for good, before it is queued.

Otherwise the job would wait there for a slot, only to be refused once it has one. Only the owner's
rules and the account count, because a missing program or directory may be there by then. A host
that does not answer soon is asked later by the dispatcher. With `-d` nobody waits, and the jobs
that a job waits for may also change the rules, so those cases are not asked about.
"""

from lbd.errors import LbdError
from lbd.lbm.outbound.context import OutboundContext
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.one_line import one_line

ANSWER_S = 2.0
PATH = b"PATH="


async def why_refused(home: OutboundContext, asked: pb.SubmitRequest) -> str:
    """Returns why it is refused; "" if it may run there, or that is unknown."""
    if asked.only in ("", home.config.host.name) or asked.after or asked.HasField("not_before"):
        return ""
    spec = asked.spec
    run = parsed(lbm_pb2.RunRequest, spec.run_request or spec.staged_request)
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
            return ""
        found = await home.cluster.ask(host, "Check", question, lbm_pb2.CheckReply, ANSWER_S)
    except LbdError:
        return ""
    return one_line(found.reason) if found.for_good else ""
