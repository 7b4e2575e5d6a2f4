"""What it costs when a host joins a cluster of 3, 30 and 300, all with certificates: `lbctl join`,
then a real LIM until it sees every host. `joined.py` plays the others."""

import contextlib
import os
import resource
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lbd.local.json_socket import ask
from lbd.trust.authority import Authority
from tests.bench import joined
from tests.bench.measure import ENVIRONMENT, CannotMeasureError, cpu_s, favour, say, wait_for
from tests.bench.row import shown as number
from tests.bench.row import table
from tests.bench.stage import Stage

SIZES, QUICK_SIZES = (3, 30, 300), (3,)
PATIENCE_S = 60.0
CONFIG = """[cluster]
name = "{cluster}"
join = "{target}"
[host]
name = "new"
address = "{address}"
runtime_dir = "{directory}"
state_dir = "{directory}"
[daemons]
user = "root"
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one newcomer."""

    hosts: int
    join_s: float  # lbctl join, the whole program
    join_cpu_s: float
    seen_s: float  # from the start of the LIM until it sees every host up
    lim_cpu_s: float  # meanwhile
    messages: int  # sent meanwhile; the first to each host takes a TLS handshake
    kilobytes: float  # of the messages, both ways
    others_cpu_s: float  # of all other hosts together


def measure(stage: Stage) -> list[Cost]:
    found = []
    for hosts in QUICK_SIZES if stage.quick else SIZES:
        say(f"measuring a host that joins {hosts} others")
        directory = stage.directory / f"j{hosts}"
        directory.mkdir()
        with cluster(stage, directory, hosts) as (others, net):
            found.append(one(stage, directory, hosts, net, others))
    return found


def one(stage: Stage, directory: Path, hosts: int, net: str, others: int) -> Cost:
    target = f"{joined.address(net, 1)}:{joined.PORT}"
    config = directory / "lbd.toml"
    own = joined.address(net, 0)
    config.write_text(
        CONFIG.format(cluster=joined.CLUSTER, target=target, address=own, directory=directory)
    )
    token = Authority(directory / "authority", joined.DAY_S).new_token("", 60.0, time.time())
    others_s = cpu_s(others)
    lbctl = [str(stage.installation.python), "-P", "-m", "lbd.cli.lbctl", "--config", str(config)]
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*lbctl, "join", target, token.text()], env=ENVIRONMENT, capture_output=True, text=True
    )
    join_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise CannotMeasureError(f"lbctl join: {done.stderr.strip()}")
    with started(stage.installation.lbd("lim", "--config", config), directory) as lim:
        socket = directory / "lim.sock"
        wait_for(socket.exists, PATIENCE_S, "the LIM")
        began_s, began_cpu_s = time.perf_counter(), cpu_s(lim.pid)
        wait_for(lambda: all_up(socket, hosts), PATIENCE_S, f"{hosts} hosts up")
        seen_s, lim_cpu_s = time.perf_counter() - began_s, cpu_s(lim.pid) - began_cpu_s
        counters = ask(socket, {"op": "counters"})
    bytes_ = [sum(counters[key].values()) for key in ("bytes_in", "bytes_out")]
    return Cost(
        hosts,
        join_s,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        seen_s,
        lim_cpu_s,
        sum(counters["messages_out"].values()),
        sum(bytes_) / 1024,
        cpu_s(others) - others_s,
    )


def all_up(socket: Path, hosts: int) -> bool:
    rows = ask(socket, {"op": "status"})["hosts"]
    return sum(row["state"] == "up" for row in rows) == hosts + 1


@contextmanager
def cluster(stage: Stage, directory: Path, hosts: int):
    """The process that plays the cluster, and its addresses."""
    net = f"127.{1 + os.getpid() % 250}"
    argv = [str(stage.installation.python), joined.__file__, str(directory), net, str(hosts)]
    with started(argv, directory) as process:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise CannotMeasureError(f"the cluster: {(directory / 'log').read_text()[-300:]}")
        yield process.pid, net


@contextmanager
def started(argv: list[str], directory: Path):
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
        )
    favour(process.pid)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


HEADINGS = (
    "a host joins", "lbctl join s", "its CPU s", "sees all s", "LIM's CPU s", "messages sent",
    "KiB in and out", "others' CPU s",
)  # fmt: skip


def shown(found: list[Cost]) -> str:
    lines = [
        [
            f"{one.hosts} hosts", number(one.join_s), number(one.join_cpu_s), number(one.seen_s),
            number(one.lim_cpu_s), str(one.messages), number(one.kilobytes),
            number(one.others_cpu_s),
        ]
        for one in found
    ]  # fmt: skip
    return table(HEADINGS, lines)
