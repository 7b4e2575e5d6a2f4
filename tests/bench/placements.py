"""How many commands a second one LIM can place with 100 hosts in its table, and how fast; and how
fast it decides among 1,000 hosts.

A real `lbd lim`, the 99 others played by `crowd.py`; one client on lim.sock acts as an LBM: it asks
for a place (elsewhere, so that all 99 are ranked), and reports at once that the job ended.

Among 1,000 hosts it is the CPU time of the deciding code alone, on the state that a LIM has, while
a tenth of the hosts report another load each second: reading the reports is not counted, but their
effects on the next decision are.
"""

import contextlib
import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from lbd.lim.core.state import LimState
from lbd.local import frames
from lbd.local.json_socket import ask
from lbd.model import JobId, Placement, PlacementRequest
from tests.bench import crowd, needs
from tests.bench.measure import (
    ENVIRONMENT,
    CannotMeasureError,
    cpu_s,
    favour,
    quantile,
    summarise,
    wait_for,
)
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage
from tests.bench.warm_ssh import free_port

OUTSTANDING = 16
BATCH = 500
DECISIONS, QUICK_DECISIONS = 5000, 500
PLACED_PER_S = 10
MEDIAN_MS, P99_MS = 0.3, 1.0
CONFIG = """[cluster]
name = "{cluster}"
hosts = [
{hosts}
]

[host]
name = "me"
address = "{address}"
runtime_dir = "{directory}"
state_dir = "{directory}"

[daemons]
user = "root"

[security]
key_file = "{directory}/key"
"""
HOST = '  {{ name = "{name}", address = "{address}", lim_port = {port}, lbm_port = {port} }},'


def measure(stage: Stage, _: set[str]) -> list[Row]:
    directory = stage.directory / "placements"
    directory.mkdir()
    with one_lim(stage, directory) as pid, Client(directory / "lim.sock") as client:
        client.place(BATCH, OUTSTANDING)
        stage.others.wait_until_quiet(0 if stage.quick else 20)
        mark = stage.others.mark()
        began_cpu_s, began_s = cpu_s(pid), time.monotonic()
        rates = [BATCH / client.place(BATCH, OUTSTANDING) for _ in range(stage.runs)]
        busy = (cpu_s(pid) - began_cpu_s) / (time.monotonic() - began_s)
        others = stage.others.share_since(mark)
        mark = stage.others.mark()
        waits_ms = [1e3 * client.place(1, 1) for _ in range(stage.runs * 20)]
        others_alone = stage.others.share_since(mark)
        client.check()
    note = f"the LIM used {busy:.0%} of a core; {OUTSTANDING} outstanding, each with its job's end"
    many, alone = Bound(3000, at_least=True, of_ratio=False), Bound(0.5, of_ratio=False)
    return [
        Row(
            "placements, 100 hosts, one LIM", "1/s", turned(summarise([-r for r in rates])),
            asked=many, others=others, note=note,
        ),
        Row(
            "one placement, 100 hosts", "ms", summarise(waits_ms), asked=alone, others=others_alone
        ),
        *among_a_thousand(stage),
    ]  # fmt: skip


def among_a_thousand(stage: Stage) -> list[Row]:
    """The median, and the p99 of each run."""
    mark = stage.others.mark()
    state, number, each_ms, tails_ms = needs.cluster(), needs.FIRST, [], []
    for _ in range(1 if stage.quick else stage.runs):
        taken_ms = []
        for _ in range(QUICK_DECISIONS if stage.quick else DECISIONS):
            for _ in range(needs.HOSTS // 10 // PLACED_PER_S):
                number += 1
                needs.record(state, 2 + number * 7 % (needs.HOSTS - 1), number, (number % 40) / 10)
            taken_ms.append(decided_ms(state, number))
        each_ms += taken_ms
        tails_ms.append(quantile(sorted(taken_ms), 0.99))
    others = stage.others.share_since(mark)
    figures = ((summarise(each_ms), "p50", MEDIAN_MS), (summarise(tails_ms), "p99", P99_MS))
    return [
        Row(
            f"decision, {needs.HOSTS} hosts, {name}", "ms", found,
            asked=Bound(most, of_ratio=False), others=others, note="of the deciding code alone",
        )
        for found, name, most in figures
    ]  # fmt: skip


def decided_ms(state: LimState, number: int) -> float:
    request = PlacementRequest(JobId(f"j{number}"), shown=False)
    began_s = time.thread_time()
    step = state.placer.next_step(request, (), needs.NOW_S)
    assert isinstance(step, Placement)
    state.placer.settle(request, step, needs.NOW_S, dry=False)
    took_s = time.thread_time() - began_s
    state.placer.job_ended(request.job)
    return took_s * 1e3


def turned(of_negative):
    """Undoes the negation of rates, which made the slow tail the p95."""
    s = of_negative
    return type(s)(-s.median, -s.p95, -s.low, s.runs)


@contextmanager
def one_lim(stage: Stage, directory: Path):
    """A LIM called `me` that knows the crowd."""
    port, crowd_port = free_port(), free_port()
    (directory / "key").write_bytes(os.urandom(32).hex().encode())
    (directory / "key").chmod(0o600)
    hosts = [(name, crowd_port) for name in crowd.names()] + [("me", port)]
    lines = [HOST.format(name=n, address=crowd.ADDRESS, port=p) for n, p in hosts]
    config = directory / "lbd.toml"
    config.write_text(
        CONFIG.format(
            cluster=crowd.CLUSTER,
            hosts="\n".join(lines),
            address=crowd.ADDRESS,
            directory=directory,
        )
    )
    lim = stage.installation.lbd("lim", "--config", config)
    players = [str(stage.installation.python), crowd.__file__, str(crowd_port)]
    players += [str(directory / "key"), f"{crowd.ADDRESS}:{port}"]
    started: list[subprocess.Popen[bytes]] = []
    with (directory / "log").open("wb") as log:
        try:
            more = {"env": ENVIRONMENT, "stdin": subprocess.DEVNULL, "stderr": log}
            started.append(subprocess.Popen(lim, stdout=log, **more))
            wait_for((directory / "lim.sock").exists, 20, "the LIM")
            started.append(subprocess.Popen(players, stdout=subprocess.PIPE, **more))
            if started[1].stdout is None or started[1].stdout.readline() != b"ready\n":
                raise CannotMeasureError(f"the crowd: {(directory / 'log').read_text()[-300:]}")
            for process in started:
                favour(process.pid)
            wait_for(lambda: all_up(directory / "lim.sock"), 20, "99 hosts up")
            yield started[0].pid
        finally:
            for process in reversed(started):
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                process.wait()
                if process.stdout:
                    process.stdout.close()


def all_up(path: Path) -> bool:
    hosts = ask(path, {"op": "status"})["hosts"]
    return sum(row["state"] == "up" for row in hosts) == crowd.COUNT + 1


class Client:
    """Keeps several questions outstanding. It looks into the first answers only, since its own time
    is not measured."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._path = path
        self._split = frames.Splitter(1 << 20)
        self._job = 0
        self._asked = 0

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def place(self, count: int, outstanding: int) -> float:
        """Seconds for `count` placements."""
        began_s = time.perf_counter()
        first = self._job + 1
        last, answered = self._job + count, 0
        self._socket.sendall(b"".join(self._question() for _ in range(min(count, outstanding))))
        while answered < count:
            replies = self._split.feed(self._socket.recv(1 << 18))
            more = []
            for _, body in replies:
                if body[:40].find(b'"ok":true') < 0:
                    raise CannotMeasureError(f"placement refused: {body[:200]!r}")
                more.append(end(first + answered))
                answered += 1
                if self._job < last:
                    more.append(self._question())
            self._socket.sendall(b"".join(more))
        return time.perf_counter() - began_s

    def _question(self) -> bytes:
        self._job += 1
        question = {
            "op": "place", "job": f"me-{self._job}", "wanted": None, "excluded": [],
            "must_leave": True, "must_stay": False, "may_wait": False, "dry": False,
            "id": self._job,
        }  # fmt: skip
        self._asked += 1
        return framed(question)

    def check(self) -> None:
        """Checks that the LIM decided each of them, on the load it had received."""
        decisions = ask(self._path, {"op": "counters"})["decisions"]
        if decisions != {"lowest": self._asked}:
            raise CannotMeasureError(f"{self._asked} placements asked for, decided: {decisions}")


def end(job: int) -> bytes:
    return framed({"op": "job", "event": "end", "job": f"me-{job}"})


def framed(message: dict[str, object]) -> bytes:
    return frames.pack(frames.JSON, json.dumps(message, separators=(",", ":")).encode())
