"""Builders of test values, with defaults for everything a test does not care about."""

from collections.abc import Mapping, Sequence

from lbd.config.schema import LimConfig
from lbd.lim.core.digest import mark_of
from lbd.lim.core.messages import Delta, Sample
from lbd.model import HostId, JobId, LoadVector, PlacementRequest, Queues
from lbd.policy.view import HostView, View
from lbd.sim.faults.lim_hosts import host, lim_state, member

# re-exported from the simulator
__all__ = ("host", "lim_state", "member")


def vector(
    index: float = 0.0,
    cores: float = 2.0,
    speed: float = 1.0,
    slots: tuple[int, int] = (2, 0),
    accepting: bool = True,
) -> LoadVector:
    """`slots` are (total, used)."""
    return LoadVector(
        index=index,
        queues=Queues(cpu=index * cores * speed),
        utilisation=min(1.0, index),
        cores=cores,
        speed=speed,
        slots_total=slots[0],
        slots_used=slots[1],
        jobs_local=0,
        jobs_foreign=slots[1],
        accepting=accepting,
    )


def sample(
    name: str,
    number: int,
    load: LoadVector | None = None,
    age_s: float = 0.0,
    incarnation: int = 1,
    drained: bool = False,
) -> Sample:
    return Sample(HostId(name), incarnation, number, age_s, load or vector(), drained)


def published(*samples: Sample, settings: tuple[int, str] = (0, "")) -> Delta:
    """Returns what a centre says that has published exactly these samples, once."""
    digest = 0
    for slot, one in enumerate(samples):
        digest ^= mark_of(slot, one, silent=False)
    return Delta(0, 1, digest, settings, tuple(enumerate(samples)))


def request(
    job: str = "j1",
    wanted: str | None = None,
    excluded: Sequence[str] = (),
    must_leave: bool = False,
    must_stay: bool = False,
    may_wait: bool = False,
    cpu_s: float = 0.0,
) -> PlacementRequest:
    return PlacementRequest(
        job=JobId(job),
        wanted=None if wanted is None else HostId(wanted),
        excluded=frozenset(map(HostId, excluded)),
        must_leave=must_leave,
        must_stay=must_stay,
        may_wait=may_wait,
        cpu_s=cpu_s,
    )


def view(
    loads: Mapping[str, float],
    me: str = "h1",
    whys: Mapping[str, str] | None = None,
    dead: Sequence[str] = (),
    params: LimConfig | None = None,
    centre: str | None = None,
) -> View:
    """Returns a view of one-core hosts at these loads. `whys` says why some may not be picked."""
    hosts = {
        HostId(name): HostView(
            HostId(name), load, load + 1.0, 0.0, name not in dead, (whys or {}).get(name, "")
        )
        for name, load in loads.items()
    }
    known_centre = None if centre is None else HostId(centre)
    return View(hosts[HostId(me)], hosts, params or LimConfig(), 0.0, known_centre)
