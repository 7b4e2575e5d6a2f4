"""What the host that `lbrun -q -H` names refuses for good, asked before the job is queued: it would
wait there for a slot, to be refused once it has one.

Only the owner's rules and the account count, as a program or directory that is missing may come by
then. A host that does not answer soon is asked by the dispatcher in its time. With `-d` nobody
waits, and what a job waits for may also change the rules, so those are not asked about.
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
    """ "" if it may run there, or that is not known."""
    if asked.only in ("", home.config.host.name) or asked.after or asked.HasField("not_before"):
        return ""
    spec = asked.spec
    run = parsed(lbm_pb2.RunRequest, spec.run_request or spec.staged_request)
    question = lbm_pb2.RunRequest(
        job_id="check",
        origin=run.origin,
        user=run.user,
        uid=run.uid,
        argv=run.argv[:1],  # one with a directory of its own is not found there
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
