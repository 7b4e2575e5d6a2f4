"""Fuzz targets for the records that one LBM leaves to the next; see `targets.py`."""

import contextlib

from google.protobuf.message import DecodeError

from lbd.errors import PeerError
from lbd.lbm.handover import adoption as adopt
from lbd.lbm.handover import codec, records
from lbd.lbm.handover.fds import Bundle, Given
from lbd.net.gen.handover_pb2 import Handover, HeldValue

KINDS = {
    kind.__name__: kind
    for kind in (
        records.LinkFrom,
        records.LinkTo,
        records.Attached,
        records.QueuedAttempt,
        records.ClientState,
    )
}


def held_records(data: bytes) -> None:
    """A record that is read and written again is the same, and no descriptor is lost."""
    with contextlib.suppress(DecodeError):
        held, given = HeldValue.FromString(data), Given(list(range(99)))
        kind = KINDS.get(held.record.name, records.ClientState)
        try:
            found = codec.read(kind, held, given)
        except PeerError:
            assert [given.take(place) for place in range(99)] == list(range(99))
            return
        bundle = Bundle()
        again = codec.write(found, bundle)
        assert codec.read(kind, again, Given([0, *bundle.descriptors])) == found


def handovers(data: bytes) -> None:
    with contextlib.suppress(DecodeError, PeerError):
        adopt.parse(Handover.FromString(data), Given(list(range(99))), 98)


ALL = (held_records, handovers)
