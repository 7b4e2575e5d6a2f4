"""The cost of a scrape of one host's daemons: from the request to the last byte, and CPU of all.

The host is the load information centre of a thousand hosts, which shows them all, with 100,000 jobs
at its LBM and as many in its queue; each scrape comes when the last page has expired. Beside it
node_exporter, from Debian's package, shows the kernel's figures of one host.
"""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lbd.process.self_start import command, environment
from tests.bench.measure import CannotMeasureError, Summary, cpu_s, say, summarise, wait_for
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

HERE = "127.0.0.1"
SCRAPES, QUICK_SCRAPES = 30, 5
FRESH_S = 1.1  # after which nothing of the last page is left
PERIOD_S = 15.0  # of Prometheus
HOSTS = 1000
TIME_ASKED, CPU_ASKED = Bound(50.0, of_ratio=False), Bound(0.2, of_ratio=False)
RIVAL = "node_exporter"


def measure(stage: Stage, _: set[str]) -> list[Row]:
    mark = stage.others.mark()
    scrapes = QUICK_SCRAPES if stage.quick else SCRAPES
    with ExitStack() as stack:
        ours = stack.enter_context(lbd_metrics(stage.directory))
        time_ms, share = scraped(*ours, scrapes, f'lbd_host_load_index{{host="host-{HOSTS - 1}"}}')
        rival = None
        try:
            rival = scraped(*stack.enter_context(node_exporter(stage.directory)), scrapes, "node_")
        except CannotMeasureError as problem:
            say(f"{RIVAL} is left out: {problem}")
    more = {"rival_name": RIVAL if rival else "", "others": stage.others.share_since(mark)}
    rival_ms, rival_share = rival or (None, None)
    return [
        Row("scrape, 1,000 hosts, 100,000 jobs", "ms", time_ms, rival=rival_ms, asked=TIME_ASKED,
            **more),
        Row(f"CPU of a scrape each {PERIOD_S:g} s", "% of a core", share, rival=rival_share,
            asked=CPU_ASKED, **more),
    ]  # fmt: skip


def scraped(port: int, pids: list[int], scrapes: int, holds: str) -> tuple[Summary, Summary]:
    """Milliseconds, and the CPU of these processes as a share of the period, in per cent."""
    times_ms, shares = [], []
    for _ in range(scrapes):
        time.sleep(FRESH_S)
        before_s, began_s = sum(map(cpu_s, pids)), time.perf_counter()
        text = page(port)
        times_ms.append(1e3 * (time.perf_counter() - began_s))
        shares.append(100 * (sum(map(cpu_s, pids)) - before_s) / PERIOD_S)
        if holds not in text:
            raise CannotMeasureError(f"a page without {holds}")
    return summarise(times_ms), summarise(shares)


def page(port: int) -> str:
    with urllib.request.urlopen(f"http://{HERE}:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@contextmanager
def lbd_metrics(place: Path) -> Iterator[tuple[int, list[int]]]:
    """The port, and the processes that work for a scrape."""
    directory, port = place / "scrape", free_port()
    directory.mkdir()
    config = directory / "lbd.toml"
    config.write_text(
        f'[host]\nname = "host-0"\nruntime_dir = "{directory}"\nstate_dir = "{directory}/state"\n'
        f'[daemons]\nuser = "root"\n[dispatch]\nhost = "host-0"\n'
        f'[metrics]\nlisten = "{HERE}:{port}"\n'
    )
    answers = [command("lim")[0], str(Path(__file__).with_name("metrics_answers.py"))]
    with (
        running([*answers, str(directory)]) as daemons,
        running([*command("metrics", "--config", str(config))]) as listener,
    ):
        wait_for(lambda: (directory / "dispatcher.sock").exists(), 60, "the daemons' answers")
        wait_for(lambda: "lbd_host_load_index" in page(port), 20, "a first page")
        yield port, [daemons, listener]


@contextmanager
def node_exporter(place: Path) -> Iterator[tuple[int, list[int]]]:
    """The port and process of node_exporter. Raises CannotMeasureError."""
    package, directory = "prometheus-node-exporter", place / "node_exporter"
    directory.mkdir()
    if (found := shutil.which(package)) is None:
        for step in (f"apt-get -qq download {package}", f"dpkg -x {package}_*.deb ."):
            done = subprocess.run(["sh", "-c", step], cwd=directory, capture_output=True)
            if done.returncode != 0:
                raise CannotMeasureError(f"{step}: {done.stderr.decode().strip()[-100:]}")
        found = str(directory / f"usr/bin/{package}")
    port = free_port()
    with running([found, f"--web.listen-address={HERE}:{port}"]) as pid:
        wait_for(lambda: page(port), 20, package)
        yield port, [pid]


@contextmanager
def running(argv: list[str]) -> Iterator[int]:
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=environment(os.environ))  # fmt: skip
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=20)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HERE, 0))
        port: int = sock.getsockname()[1]
        return port
