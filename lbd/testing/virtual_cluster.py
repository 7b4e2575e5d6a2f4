"""The simulator's cluster with our wire format: every message is encoded and decoded on its way."""

from lbd.lim.messages import Message
from lbd.rpc import convert
from lbd.sim.lim_cluster import LimCluster


class VirtualCluster(LimCluster):
    def carried(self, message: Message) -> tuple[Message, int]:
        data = convert.encode(message)
        return convert.decode(data), len(data)
