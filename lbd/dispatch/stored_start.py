"""A submission's data for starting attempts, parsed from the ledger, which others may have written
to."""

from google.protobuf.message import DecodeError

from lbd.dispatch.core.ledger_rows import LedgerTrouble, Stored
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.submitter import has_too_many_words
from lbd.text.command_words import TOO_MANY_WORDS


class UnreadableSpec(LedgerTrouble):
    """The job cannot be started anywhere."""


def start_in(stored: Stored) -> pb.Start:
    """Raises UnreadableSpec."""
    try:
        start = pb.Start(origin=stored.origin, user=stored.user, uid=stored.uid)
        start.spec.ParseFromString(stored.spec)
        if has_too_many_words(start.spec):
            raise UnreadableSpec(TOO_MANY_WORDS)
    except (DecodeError, TypeError, ValueError):
        raise UnreadableSpec("its command in the ledger is malformed") from None
    return start
