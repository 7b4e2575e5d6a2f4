"""LIMs of simulated hosts: h1, h2 and so on, with two cores each, ranked in that order."""

from collections.abc import Sequence
from random import Random

from lbd.config.schema import LimConfig, LoadConfig
from lbd.lim.core.history import RecordedState, Write
from lbd.lim.core.messages import Member, Settings
from lbd.lim.core.settings import InForce, resumed
from lbd.lim.core.state import Identity, LimState
from lbd.lim.core.table import UNLISTED_RANK
from lbd.model import HostId

NO_SETTINGS = Settings()


def host(number: int) -> HostId:
    return HostId(f"h{number}")


def member(name: str, rank: int = 0, incarnation: int = 1, address: str = "") -> Member:
    number = int(name[1:]) if name[1:].isdigit() else 0
    where = address or f"10.0.{number // 250}.{number % 250 + 1}"
    return Member(HostId(name), where, 7901, 7902, rank, incarnation, "test")


def lim_state(
    name: str = "h1",
    others: Sequence[str] = (),
    params: LimConfig | None = None,
    join: str = "",
    incarnation: int = 1,
    seed: int = 1,
    now_s: float = 0.0,
    drained: bool = False,
    address: str = "",
    write: Write | None = None,
    settings: Settings = NO_SETTINGS,
    is_strict: bool = False,
    remembered: Sequence[str] = (),
) -> LimState:
    """Returns a LIM that has just started; ranks follow the order of the names."""
    base = InForce(params or LimConfig(), LoadConfig())
    listed = sorted({name, *others}, key=lambda n: (len(n), n))
    rank = {n: place for place, n in enumerate(listed)}
    identity = Identity(
        cluster="test",
        me=member(name, rank[name] if others else UNLISTED_RANK, incarnation, address),
        others=[member(n, rank[n], 0) for n in listed if n != name],
        join_target=join,
        cores=2.0,
        speed=1.0,
        drained=drained,
        settings=resumed(base, settings)[0],
        remembered=[member(n, UNLISTED_RANK, 0) for n in remembered],
        is_strict=is_strict,
    )
    if write is not None:
        return RecordedState(identity, base, seed, now_s, write)
    return LimState(identity, base, Random(seed), now_s)
