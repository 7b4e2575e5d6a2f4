"""The cost of the status page with 200 hosts and 10,000 jobs: the time until a browser has painted
it, and CPU while fifty clients watch.

The time runs from the start of the navigation to the first paint with content, by the browser's own
account, in headless Chromium. Dask's page of its workers is beside it, if available, with 20
workers, since more in one process take minutes to start.
"""

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lbd.local.json_socket import ask
from lbd.process.self_start import command
from tests.bench.measure import (
    CannotMeasureError,
    Summary,
    cpu_s,
    descendants,
    say,
    summarise,
    wait_for,
)
from tests.bench.rivals import install
from tests.bench.row import Bound, Row
from tests.bench.scrape import free_port, running
from tests.bench.stage import Stage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("page", "page-viewers")
PAINT_ASKED, VIEWERS_ASKED = Bound(300.0, of_ratio=False), Bound(5.0, of_ratio=False)
PAINTS, QUICK_PAINTS = 20, 4
APART_S = 1.1  # after which nothing of the last page is left
VIEWERS, WATCHED_S, QUICK_WATCHED_S = 50, 10.0, 4.0
WINDOWS = 3
DASK = "dask[distributed,diagnostics]"
PAINTED = """() => {
    const found = performance.getEntriesByName("first-contentful-paint")[0];
    return found ? found.startTime : 0;
}"""


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    rows = []
    with ExitStack() as stack:
        url, login, pid = stack.enter_context(lbd_page(stage.directory))
        if "page" in wanted:
            rows += painted_rows(stage, url, login)
        if "page-viewers" in wanted:
            mark = stage.others.mark()
            share = watched(url, pid, QUICK_WATCHED_S if stage.quick else WATCHED_S)
            others = stage.others.share_since(mark)
            rows.append(Row(f"status page, {VIEWERS} viewers", "% of a core", share,
                            asked=VIEWERS_ASKED, others=others))  # fmt: skip
    return rows


def painted_rows(stage: Stage, url: str, login: str) -> list[Row]:
    times = QUICK_PAINTS if stage.quick else PAINTS
    mark = stage.others.mark()
    rival = None
    with chromium() as browser:
        hosts = painted(browser, url, times)
        jobs = painted(browser, f"{url}jobs", times, login)
        try:
            with dask(stage) as theirs:
                rival = painted(browser, theirs, times)
        except CannotMeasureError as problem:
            say(f"Dask's page is left out: {problem}")
    others = stage.others.share_since(mark)
    name = "Dask's workers" if rival else ""
    return [
        Row("first paint, 200 hosts", "ms", hosts, name, rival, PAINT_ASKED, others),
        Row("first paint, 10,000 jobs", "ms", jobs, name, rival, PAINT_ASKED, others),
    ]


def painted(browser: "Browser", url: str, times: int, login: str = "") -> Summary:
    """Milliseconds, in one browser that has visited the page before."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        tab, found = context.new_page(), []
        tab.goto(login or url)
        for _ in range(times):
            time.sleep(APART_S)
            tab.goto("about:blank")
            tab.goto(url, wait_until="load")
            wait_for(lambda: tab.evaluate(PAINTED), 20, "a first paint")
            found.append(float(tab.evaluate(PAINTED)))
        return summarise(found)
    finally:
        context.close()


def watched(url: str, pid: int, watched_s: float) -> Summary:
    """Per cent of a core of the page's processes, while many clients follow its changes."""
    address, shares = urlsplit(url).netloc, []
    with ExitStack() as stack:
        ways = [http.client.HTTPConnection(address, timeout=30) for _ in range(VIEWERS)]
        streams = []
        for way in ways:
            stack.callback(way.close)
            way.request("GET", "/index.events")
            answer = way.getresponse()
            if answer.status != 200:
                raise CannotMeasureError(f"a viewer was answered with {answer.status}")
            way.sock.setblocking(False)
            streams.append(way.sock)
        for _ in range(WINDOWS):
            pids = [pid, *descendants(pid)]
            before_s, end_s = sum(map(cpu_s, pids)), time.monotonic() + watched_s
            read = 0
            while time.monotonic() < end_s:
                read += sum(map(taken, streams))
                time.sleep(0.1)
            if not read:
                raise CannotMeasureError("nothing came to the viewers")
            shares.append(100 * (sum(map(cpu_s, pids)) - before_s) / watched_s)
    return summarise(shares)


def taken(stream: socket.socket) -> int:
    try:
        return len(stream.recv(1 << 20))
    except BlockingIOError:
        return 0


@contextmanager
def lbd_page(place: Path) -> Iterator[tuple[str, str, int]]:
    """The page's address, a link that signs in, and its process."""
    directory, port = place / "page", free_port()
    directory.mkdir()
    config = directory / "lbd.toml"
    config.write_text(
        f'[host]\nname = "host-0"\nruntime_dir = "{directory}"\nstate_dir = "{directory}/state"\n'
        '[daemons]\nuser = "root"\n'
    )
    answers = [command("lim")[0], str(Path(__file__).with_name("page_answers.py"))]
    listen = ("--listen", f"127.0.0.1:{port}", "--config", str(config))
    with running([*answers, str(directory)]), running(command("web", *listen)) as pid:
        wait_for(lambda: (directory / "ready").exists(), 60, "the daemons' answers")
        wait_for(lambda: (directory / "web.sock").exists(), 20, "the page")
        login = str(ask(directory / "web.sock", {"op": "login"})["url"])
        yield f"http://127.0.0.1:{port}/", login, pid


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A headless browser. Raises CannotMeasureError."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise CannotMeasureError("no playwright here: pip install playwright") from None
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        except Error as problem:
            raise CannotMeasureError(str(problem).strip().partition("\n")[0]) from None
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def dask(stage: Stage) -> Iterator[str]:
    """The address of Dask's page. Raises CannotMeasureError."""
    python = os.environ.get("LBD_BENCH_DASK_PAGE") or install(DASK, stage.directory / "page-venv")
    port = free_port()
    argv = [python, str(Path(__file__).with_name("dask_peer.py")), str(port)]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise CannotMeasureError("Dask's scheduler did not start")
        yield f"http://127.0.0.1:{port}/workers"
    finally:
        process.kill()
        process.communicate()
