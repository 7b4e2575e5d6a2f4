"""The submitter of a queued job: recorded once, beside its request, when the caller's name was
proven.

A stored request has an origin and a user of its own. If those counted, a host could run commands in
another's name. So they may only repeat what is recorded beside them. The dispatcher checks this
when it accepts a job, and each host again before it runs one.
"""

from typing import NamedTuple

from google.protobuf.message import DecodeError

from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.parsing import FIELD_BYTES, TooManyFields, parsed
from lbd.text.command_words import QUEUED_FIELDS_MAX, QUEUED_WORDS_MAX
from lbd.text.one_line import one_line

# For a submission by `Queue`: the dispatcher holds it as long as that call lasts.
WATCHED_BYTES = 16 << 10
LEDGER_TOKEN_BYTES = 16  # by which a host knows the ledger that has its jobs


def is_ledger_token(token: bytes) -> bool:
    """Whether it may be kept with each job: a host that poses as dispatcher can send any bytes."""
    return 0 < len(token) <= LEDGER_TOKEN_BYTES


class Submitter(NamedTuple):
    origin: str
    user: str
    uid: int

    def __str__(self) -> str:
        return f"{self.user} (uid {self.uid}) on {self.origin}"


NOBODY = Submitter("", "", 0)


def request_in(spec: dispatch_pb2.StoredSpec) -> lbm_pb2.RunRequest | None:
    """Returns the command of a stored job; None if that is not exactly one RunRequest."""
    try:
        return parsed(lbm_pb2.RunRequest, spec.run_request)
    except DecodeError:
        return None


def has_too_many_words(spec: dispatch_pb2.StoredSpec) -> bool:
    """Whether a stored job has more words than one of the queue may have; not many more of them are
    looked at."""
    request = spec.run_request  # each access makes a copy
    if len(request) <= FIELD_BYTES * QUEUED_WORDS_MAX:
        return False
    try:
        found = parsed(lbm_pb2.RunRequest, request, QUEUED_FIELDS_MAX)
    except TooManyFields:
        return True
    except DecodeError:
        return False
    return words_in(found) > QUEUED_WORDS_MAX


def words_in(request: lbm_pb2.RunRequest) -> int:
    return len(request.argv) + len(request.environment)


def contradiction(request: lbm_pb2.RunRequest, submitter: Submitter) -> str:
    """Returns why the submitter cannot have made this request, or ""."""
    inner = request.origin, request.user, request.uid
    if inner in (submitter, NOBODY):
        return ""
    said = Submitter(*inner)
    return one_line(f"its command claims to be {said}'s, but {submitter} submitted it")
