"""Who submitted a queued job: said once, beside its request, where the caller's name was proven.

A stored request has room for an origin and a user of its own. Whoever went by those would let a
host run commands in the name of another, so they may repeat what is said beside them and nothing
else; the dispatcher looks when it takes a job in, and each host again before it runs one.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.parsing import parsed
from lbd.text.one_line import one_line

# Of a submission by `Queue`: the dispatcher holds it for as long as that call lasts.
WATCHED_BYTES = 16 << 10


class Submitter(NamedTuple):
    origin: str
    user: str
    uid: int

    def __str__(self) -> str:
        return f"{self.user} (uid {self.uid}) on {self.origin}"


NOBODY = Submitter("", "", 0)


def request_in(spec: dispatch_pb2.StoredSpec) -> lbm_pb2.RunRequest | None:
    """The command of a job as it is stored; None if that is not one RunRequest."""
    staged, plain = spec.staged_request, spec.run_request  # each look is a copy
    if staged and plain:
        return None
    try:
        return parsed(lbm_pb2.RunRequest, staged or plain)
    except DecodeError:
        return None


def contradiction(request: lbm_pb2.RunRequest, submitter: Submitter) -> str:
    """Returns why the submitter cannot have made this request, or ""."""
    inner = request.origin, request.user, request.uid
    if inner in (submitter, NOBODY):
        return ""
    said = Submitter(*inner)
    return one_line(f"its command claims to be {said}'s, but {submitter} submitted it")
