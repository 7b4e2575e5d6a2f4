"""An immediate command that needs several slots of one host (-n): which hosts have them.

By what the LIM knows of all hosts' slots. That may be a moment old: the host itself has the last
word, and what it refuses is asked elsewhere, as for any command.
"""

from lbd.errors import Unavailable
from lbd.model import HostId
from lbd.rpc.local import Json, JsonClient, Refusal

Slots = dict[HostId, tuple[int, int]]  # of each host that is there: all, and those free


class Wide:
    def __init__(self, slots: tuple[int, int], own_name: HostId) -> None:
        """`slots`: it needs, and can use."""
        self.least, self.most = slots
        self._own = own_name
        self.must_leave = False  # this host has too few
        self.here = 0  # slots it may use if it stays

    async def ask(self, lim: JsonClient, question: Json, limit_s: float) -> Json:
        """Where it is to go, as the LIM says when all are left out who have too few free slots just
        now. Raises Unavailable, and Refusal if no host has so many at all."""
        if await self._narrow(lim, question, limit_s):
            return await lim.call(question, limit_s)
        return {"verdict": "wait", "host": self._own, "reason": "too-few-free-slots"}

    async def _narrow(self, lim: JsonClient, question: Json, limit_s: float) -> bool:
        """False if nobody is left."""
        if self.most == 1 or question["must_stay"]:
            return True
        known = slots_of(await lim.call({"op": "status"}, limit_s))
        if self._own not in known:
            raise Unavailable("the lim knows of no slots here yet")
        named, listed = question["wanted"], question["excluded"]
        excluded = {HostId(str(name)) for name in listed} if isinstance(listed, list) else set()
        able = {name: total for name, (total, _) in known.items() if named in (None, name)}
        self._check(able, named)
        if named is not None:  # it may wait there
            return True
        few = {name for name, (_, free) in known.items() if free < self.least}
        self.must_leave = self._own in few
        self.here = min(self.most, known[self._own][1])
        question["excluded"] = sorted(excluded | few)
        question["must_leave"] = question["must_leave"] or self.must_leave
        return not question["must_leave"] or bool(known.keys() - few - excluded - {self._own})

    def _check(self, able: dict[HostId, int], named: object) -> None:
        """`able`: the slots of each host that may be meant. Raises Refusal."""
        if not able or max(able.values()) >= self.least:
            return
        if named is not None:
            raise Refusal(f"-n {self.least}: {named} has {max(able.values())} slots")
        largest = max(able, key=lambda name: (able[name], name))
        most = f"the most are {able[largest]}, on {largest}"
        raise Refusal(f"-n {self.least}: no host has so many slots; {most}")


def slots_of(status: Json) -> Slots:
    """Of `status` as the LIM answers it."""
    found: Slots = {}
    hosts = status.get("hosts")
    for host in hosts if isinstance(hosts, list) else []:
        slots = host["slots"]
        if host["state"] == "up":
            found[HostId(host["name"])] = slots["total"], slots["total"] - slots["used"]
    return found
