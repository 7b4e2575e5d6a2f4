"""Does a command stay here without a question to the LIM?"""

from dataclasses import replace
from typing import TYPE_CHECKING

from lbd.errors import Unavailable
from lbd.lbm.home import Home, Where
from lbd.lbm.request import ClientRequest
from lbd.model import HostId
from lbd.policy.invocation import name_of
from lbd.rpc import client_tags as tags

if TYPE_CHECKING:
    from lbd.lbm.eligible import Run


def stays(home: Home, request: ClientRequest, uid: int) -> "tuple[Where | None, Run | None]":
    """Where it stays: lists forbid it to leave, or it is not worth it. The run is one to learn of.

    Raises LbdError where the user's word is against what the owner of this host says.
    """
    own_name, eligible = HostId(home.config.host.name), home.eligible
    where = Where("here", own_name, "", "never")
    if not request.has(tags.FLAG_SHELL) or request.mode != "auto":
        if request.host == own_name or not eligible.kept_by_owner(request.argv):
            return None, None
        if request.mode == "auto":
            return where, None
        name = name_of(request.argv)
        raise Unavailable(f"{name} is not to leave this host (eligibility.never)")
    verdict = eligible.judge(uid, request.argv, request.directory)
    if verdict.leaves:
        return None, None
    run = eligible.run_here(uid, request.argv, verdict)
    return replace(where, reason=verdict.reason), run
