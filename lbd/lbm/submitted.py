"""What the attempts of one submission have in common on this host, worked out once.

An array's attempts differ in little more than their names. To read the request of each anew, and to
write down its whole environment for the keeper, took longer than a short job runs.
"""

from collections import OrderedDict
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from lbd.config import Config
from lbd.lbm.orders import make_order
from lbd.lbm.run_request import fault_of
from lbd.lbm.spawn_order import Order, pack_common
from lbd.lbm.users import LocalUser
from lbd.rpc.gen import lbm_pb2

KNOWN = 8  # submissions whose attempts take turns here
# Variables of each attempt's own.
OWN = {
    b"LBD_JOB_ID", b"LBD_ATTEMPT", b"LBD_TIER", b"LBD_SLOTS", b"LBD_ARRAY_INDEX", b"LBD_CUTOFF_S",
    b"LBD_CHECKPOINT",
}  # fmt: skip


@dataclass(slots=True)
class Common:
    request: lbm_pb2.RunRequest  # of no job in particular; nobody changes it
    fault: str  # why it cannot be run, or ""
    _circumstances: tuple[LocalUser | None, Config, bool] | None = None
    _packed: bytes = b""

    def order(self, run_as: LocalUser | None, config: Config, *, limited_cpu: bool) -> Order:
        """For the keeper, without what is the attempt's own."""
        if self.request.HasField("stage"):  # each in a directory of its own
            return self._make(run_as, config, limited_cpu)
        known = self._circumstances
        # A configuration is compared by identity: it is large, and a new one is another object.
        if known is None or (known[0], known[2]) != (run_as, limited_cpu) or known[1] is not config:
            self._packed = pack_common(self._make(run_as, config, limited_cpu))
            self._circumstances = run_as, config, limited_cpu
        return Order(argv=list(self.request.argv), packed=self._packed)

    def _make(self, run_as: LocalUser | None, config: Config, limited_cpu: bool) -> Order:
        order = make_order(self.request, run_as, config, limited_cpu=limited_cpu)
        for name in OWN:
            order.environment.pop(name, None)
        return order


class Submitted:
    """The last few."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Common] = OrderedDict()

    def common(self, run_request: bytes) -> Common:
        """`run_request`: as it is stored."""
        found = self._known.get(run_request)
        if found is None:
            found = self._known[run_request] = read(run_request)
            if len(self._known) > KNOWN:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(run_request)
        return found


def read(run_request: bytes) -> Common:
    request = lbm_pb2.RunRequest()
    try:
        request.ParseFromString(run_request)
    except DecodeError:
        return Common(request, "no RunRequest")
    request.job_id = "0"
    return Common(request, fault_of(request))
