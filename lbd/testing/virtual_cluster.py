"""The simulator's cluster with the real wire format: it encodes and decodes every message."""

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.model import HostId
from lbd.net import convert
from lbd.sim.faults.lim_cluster import LimCluster


class VirtualCluster(LimCluster):
    # The last message carried. With hundreds of hosts, this saves encoding each copy of a vector.
    _body: m.Body | None = None
    _from: tuple[HostId, int] | None = None
    _carried: tuple[m.Message, int]

    def carried(self, message: m.Message) -> tuple[m.Message, int]:
        sender = message.sender, message.incarnation
        if message.body is not self._body or sender != self._from:
            data = convert.encode(message)
            self._body, self._from = message.body, sender
            self._carried = convert.decode(data), len(data)
        return self._carried


def settled(hosts: int = 4, seed: int = 1, params: LimConfig | None = None) -> VirtualCluster:
    """Returns a cluster whose hosts all see each other."""
    cluster = VirtualCluster(hosts, seed, params)
    cluster.run_until(cluster.settled, 30, "every host sees every host")
    return cluster
