"""`page_answers.py DIRECTORY`: a LIM's and an LBM's answers to the status page.

These are the answers of a LIM that knows two hundred hosts, and the jobs of a queue of ten
thousand, without the rest of the daemons.
"""

import asyncio
import sys
import time
from pathlib import Path
from random import Random

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.lim import socket_values
from lbd.lim.core.past_loads import SPANS, PastLoads
from lbd.local.caller import Caller
from lbd.local.json_socket import Json, serve_json
from lbd.model import HostId
from lbd.testing.builders import lim_state, sample, vector

HOSTS, JOBS, RUNNING = 200, 10_000, 400
CHANGED_S = 1.0  # loads are new then


class Lim:
    def __init__(self) -> None:
        self._names = [f"host-{number}" for number in range(HOSTS)]
        self._state = lim_state(self._names[0], self._names)
        self._state.placer.centre = HostId(self._names[0])
        self._rng, self._number, self._heard_s = Random(1), 0, -CHANGED_S
        self._loads = PastLoads()
        for back in range(360):
            loads = {name: self._rng.uniform(0.0, 3.0) for name in self._names}
            self._loads.add(loads, time.time() - 3600.0 + back * 10.0)

    async def handle(self, request: Json, _caller: Caller) -> Json:
        if request.get("op") == "loads":
            span, now_s = socket_values.span(request), time.time()
            loads = {
                name: socket_values.loads(self._loads.points(name, span, now_s))
                for name in socket_values.hosts_asked(request)
            }
            return {"step_s": SPANS[span][0], "until": now_s, "loads": loads}
        now_s = time.monotonic()
        if now_s - self._heard_s >= CHANGED_S:
            self._heard_s, self._number = now_s, self._number + 1
            for name in self._names:
                heard = sample(name, self._number, vector(self._rng.uniform(0.0, 3.0)))
                self._state.table.record(heard, now_s)
        return socket_values.status(self._state, now_s)


class Lbm:
    def __init__(self) -> None:
        rng, now_s = Random(2), time.time()
        self._jobs = [job(number, rng, now_s) for number in range(JOBS)]

    async def handle(self, request: Json, _caller: Caller) -> Json:
        if request.get("op") == "jobs":
            return {"jobs": self._jobs, "missing": [], "withheld": {}}
        return {}


def job(number: int, rng: Random, now_s: float) -> Json:
    runs = number < RUNNING
    return {
        "id": str(number + 1), "name": f"fit-{number % 50}", "command": ["python", "fit.py", "-x"],
        "user": rng.choice(("ann", "bob", "carol")), "origin": "host-0", "attempt": int(runs),
        "host": f"host-{number % HOSTS}" if runs else None, "tier": None, "exit_status": None,
        "state": "running" if runs else "pending", "submitted": now_s - 600.0, "slots": 1,
        "started": now_s - 60.0 if runs else None, "finished": None, "cpu_s": None,
        "array_index": None, "reason": None if runs else "waits for a slot",
    }  # fmt: skip


async def serve(directory: Path) -> None:
    await serve_json(directory / "lim.sock", Lim().handle, 0o666)
    await serve_json(directory / "lbm.sock", Lbm().handle, 0o666)
    (directory / "ready").touch()
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(Path(sys.argv[1])))
