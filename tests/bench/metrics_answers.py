"""`metrics_answers.py DIRECTORY`: a LIM's, an LBM's and a dispatcher's answers for metrics.

These are the daemons' own answers, of a LIM that knows a thousand hosts, an LBM that has seen a
hundred thousand jobs end, and a dispatcher with as many in its queue. The rest of the daemons is
left out, so that all the CPU time of this process goes into the answers.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.config.schema import Config
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.metrics import dispatcher_metrics
from lbd.lbm.core.jobs import Job, Jobs
from lbd.lbm.core.leases import Leases
from lbd.lbm.core.slots import Slots
from lbd.lbm.session.questions import lbm_metrics
from lbd.lbm.usage.log import EndedJobs
from lbd.lim.metrics import lim_metrics
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, serve_json
from lbd.model import HostId, JobId, JobState
from lbd.net.lim_network import Traffic
from lbd.process.own_figures import OwnFigures
from lbd.testing.builders import lim_state, sample, vector

if TYPE_CHECKING:
    from lbd.lbm.inbound.context import InboundContext
    from lbd.lbm.outbound.context import OutboundContext

HOSTS, JOBS, RUNNING = 1000, 100_000, 500
KINDS = ("Report", "Delta", "Hello", "Members", "Ack", "Ping", "Probe", "ProbeReply")


def lim() -> Callable[[], Json]:
    names = [f"host-{number}" for number in range(HOSTS)]
    state, rng, now_s = lim_state(names[0], names), Random(1), time.monotonic()
    for name in names:
        state.table.record(sample(name, 1, vector(rng.uniform(0.0, 3.0))), now_s)
    state.placer.centre = HostId(names[0])
    traffic = Traffic()
    for kind in KINDS:
        traffic.came(kind, 100)
        traffic.went(kind, 100)
    return lambda: lim_metrics(state, traffic, {"Report": 3}, time.monotonic())


def lbm() -> Callable[[], Json]:
    counts, rng, here = EndedJobs(), Random(2), HostId("host-0")
    jobs = Jobs(500, counts.note)
    for number in range(JOBS):
        began, took_s = rng.uniform(0.0, 60.0), rng.expovariate(0.01)
        job = Job(JobId(str(number)), (b"cc",), "ann", here, here, 0.0, started=began)
        jobs.add(job)
        if number >= RUNNING:
            jobs.end(job.id, JobState.DONE, began + took_s, 0, took_s / 2)
    slots, link = Slots(64), SimpleNamespace(pid=1)
    host = SimpleNamespace(jobs=jobs, slots=slots, link=link, config=Config())
    home = SimpleNamespace(
        room=SimpleNamespace(waiting=[]),
        usage=SimpleNamespace(lost=0, ended_jobs=counts),
        queue=SimpleNamespace(leases=Leases()),
    )
    return lambda: lbm_metrics(cast("InboundContext", host), cast("OutboundContext", home))


def dispatcher(directory: Path) -> Callable[[], Json]:
    life = Lifecycle(make("fcfs", ()), Terms(30.0))
    jobs = [QueuedJob(JobId(str(number)), submission=number) for number in range(1, JOBS + 1)]
    life.submitted(jobs, 0.0, Random(3))
    made = Dispatcher(Config(), SqliteLedger(directory / "ledger.sqlite"), life, b"")
    assert len(life.jobs) == JOBS
    return lambda: dispatcher_metrics(made)


async def serve(directory: Path) -> None:
    answers = {"lim": lim(), "lbm": lbm(), "dispatcher": dispatcher(directory)}
    for name, answer in answers.items():
        figures = OwnFigures()

        async def handle(
            _request: Json,
            _caller: Caller,
            answer: Callable[[], Json] = answer,
            figures: OwnFigures = figures,
        ) -> Json:
            return {**figures.answer(), **answer()}

        await serve_json(directory / f"{name}.sock", handle, 0o600)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
