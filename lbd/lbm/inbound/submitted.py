"""What the attempts of one submission have in common on this host, computed once.

The account under which it is admitted and runs is what the dispatcher says beside the request; the
submitting host had proven its name to the dispatcher. What the request itself says must agree.

An array's attempts differ in little more than their names. Reading the request of each again, and
writing its whole environment for the keeper, took longer than a short job runs.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from lbd.config.dispatch import LEASE_S_MAX
from lbd.config.schema import Config
from lbd.keeper.local_account import LocalUser
from lbd.keeper.spawn_order import Order, pack_common
from lbd.lbm.inbound.request import QUEUED_ID, fault_of, make_order
from lbd.model import NO_NEEDS, Needs
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.parsing import TooManyFields, parsed
from lbd.net.submitter import Submitter, contradiction, words_in
from lbd.text.command_words import QUEUED_FIELDS_MAX, QUEUED_WORDS_MAX, TOO_MANY_WORDS
from lbd.text.job_limits import GANG_MAX, REQUEST_BYTES_MAX, SLOTS_MAX, TIME_MAX
from lbd.text.needs_words import read_needs_text

UNSAID = "its dispatcher does not say whose it is"
GANG_HOSTS_BYTES = (128 << 10) - len("LBD_GANG_HOSTS=")  # limit of execve for one string
CUTOFF_S_MAX = 1e12
NAMED = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")  # what every shell passes on
KNOWN = 8  # submissions whose attempts alternate here
KNOWN_BYTES = 16 << 20  # of these; the latest is kept in any case
LONG_BYTES = 64 << 10  # an order of which only the latest is kept
COPIES = 2  # of a request: as it came, and as it is read
# Variables that each attempt has of its own.
OWN = {
    b"LBD_JOB_ID", b"LBD_ATTEMPT", b"LBD_TIER", b"LBD_SLOTS", b"LBD_ARRAY_INDEX", b"LBD_ARRAY_ID",
    b"LBD_CUTOFF_S", b"LBD_CHECKPOINT", b"LBD_GANG_HOSTS",
}  # fmt: skip


# What most attempts of a submission have in common: which attempt it is, its tier, its slots, and
# its array's id, if any.
Numbers = tuple[int, int, int, int]


def variables(numbers: Numbers) -> dict[bytes, bytes]:
    attempt, tier, slots, array = (b"%d" % number for number in numbers)
    found = {b"LBD_ATTEMPT": attempt, b"LBD_TIER": tier, b"LBD_SLOTS": slots}
    if numbers[-1]:  # an array's
        found[b"LBD_ARRAY_ID"] = array
    return found


@dataclass(slots=True)
class Common:
    # of no particular job, in its submitter's name; never changed
    request: lbm_pb2.RunRequest
    fault: str  # why it cannot be run, or ""
    needs: Needs = NO_NEEDS  # an unreadable request is refused anyway
    _circumstances: tuple[LocalUser | None, Config, bool] | None = None
    _packed: dict[Numbers, bytes] = field(default_factory=dict)
    _has_odd_names: bool | None = None
    _packed_bytes: int = 0

    @property
    def has_odd_names(self) -> bool:
        """Returns whether it has variables that a shell may drop."""
        if self._has_odd_names is None:
            self._has_odd_names = not all(map(NAMED.match, self.request.environment))
        return self._has_odd_names

    def order(
        self,
        start: dispatch_pb2.Start,
        run_as: LocalUser | None,
        config: Config,
        *,
        limited_cpu: bool,
    ) -> Order:
        """The order for the keeper, without the parts that only this attempt has."""
        numbers = start.attempt, start.tier, max(1, start.slots), start.array
        if self.request.HasField("workdir"):  # each in its own directory
            return self._make(numbers, run_as, config, limited_cpu)
        known = self._circumstances
        # Configurations are compared by identity: they are large, and a new one is another object.
        if known is None or (known[0], known[2]) != (run_as, limited_cpu) or known[1] is not config:
            self._forget()
            self._circumstances = run_as, config, limited_cpu
        packed = self._packed.get(numbers)
        if packed is None:
            packed = pack_common(self._make(numbers, run_as, config, limited_cpu))
            if len(self._packed) >= KNOWN or len(packed) > LONG_BYTES:
                self._forget()
            self._packed[numbers] = packed
            self._packed_bytes += len(packed)
        return Order(argv=list(self.request.argv), packed=packed)

    def _forget(self) -> None:
        self._packed.clear()
        self._packed_bytes = 0

    def size_bytes(self, request_bytes: int) -> int:
        return COPIES * request_bytes + self._packed_bytes

    def _make(
        self, numbers: Numbers, run_as: LocalUser | None, config: Config, limited_cpu: bool
    ) -> Order:
        order = make_order(self.request, run_as, config, limited_cpu=limited_cpu)
        for name in OWN:
            order.environment.pop(name, None)
        order.environment |= variables(numbers)
        return order


class Submitted:
    """The last few submissions."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[bytes, Submitter | None], Common] = OrderedDict()

    def common(self, start: dispatch_pb2.Start) -> Common:
        key = start.spec.run_request, submitter_of(start)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = read(*key)
        else:
            self._known.move_to_end(key)
        while len(self._known) > 1 and (len(self._known) > KNOWN or self.bytes > KNOWN_BYTES):
            self._known.popitem(last=False)
        return found

    @property
    def bytes(self) -> int:
        return sum([one.size_bytes(len(key[0])) for key, one in self._known.items()])


def submitter_of(start: dispatch_pb2.Start) -> Submitter | None:
    """None: the dispatcher does not say."""
    if not (start.origin and start.user and start.HasField("uid")):
        return None
    return Submitter(start.origin, start.user, start.uid)


def read(run_request: bytes, submitter: Submitter | None) -> Common:
    request = lbm_pb2.RunRequest()
    if len(run_request) > REQUEST_BYTES_MAX:
        return Common(request, f"it has more than {REQUEST_BYTES_MAX} bytes")
    try:
        request = parsed(lbm_pb2.RunRequest, run_request, QUEUED_FIELDS_MAX)
    except TooManyFields:
        return Common(request, TOO_MANY_WORDS)
    except DecodeError:
        return Common(request, "not a RunRequest")
    if words_in(request) > QUEUED_WORDS_MAX:
        return Common(lbm_pb2.RunRequest(), TOO_MANY_WORDS)
    request.job_id = "0"
    fault = UNSAID if submitter is None else contradiction(request, submitter)
    if submitter is not None:
        request.origin, request.user, request.uid = submitter.origin, submitter.user, submitter.uid
    fault = fault or fault_of(request)
    return Common(request, fault, NO_NEEDS if fault else read_needs_text(request.needs))


def fault_of_start(start: dispatch_pb2.Start) -> str:
    """Returns which of an order's own values are not valid; "" if all are."""
    rules = {
        "job": QUEUED_ID.fullmatch(start.job) is not None,
        "attempt": 1 <= start.attempt < 1 << 31,
        "lease_s": 0 < start.lease_s <= LEASE_S_MAX,
        "cutoff_s": 0 <= start.cutoff_s <= CUTOFF_S_MAX,
        "requeued": 0 <= start.requeued <= TIME_MAX,
        "submitted": 0 <= start.spec.submitted <= TIME_MAX,
        "slots": start.slots <= SLOTS_MAX,
        "array_index": start.array_index >= 0,
        "array": start.array >= 0,
        "gang_hosts": not (gang := start.gang_hosts)
        or (
            len(gang) <= GANG_MAX
            and len(",".join(gang).encode()) < GANG_HOSTS_BYTES
            and all(map(str.isprintable, gang))
        ),
    }
    return ", ".join([name for name, holds in rules.items() if not holds])
