"""How long `true` takes: through lbrun as a whole process, and through the daemons alone."""

import os
import socket
import time
from functools import partial

from lbd.local import client_tags as tags
from lbd.local import frames
from tests.bench.measure import WARM_UP_ROUNDS, CannotMeasureError, in_turns, run_s, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

PYTHON = "python3 -I -S -c pass"
SSH = "ssh, warm master"
TRUE = "/usr/bin/true"
ANSWER_TIMEOUT_S = 10.0


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    """Measures those wanted of local, here, remote and held, all in the same turns."""
    lab = stage.lab()
    environment = lab.environment("h1")
    lbrun = str(stage.installation.lbrun)
    python = [stage.interpreter(), "-I", "-S", "-c", "pass"]
    cases = {
        "python": partial(run_s, python, environment),
        "local": partial(run_s, [lbrun, "--local", TRUE], environment),
        "here": partial(run_s, [lbrun, TRUE], environment),
    }
    if wanted & {"remote", "held"}:
        cases |= {
            "ssh": partial(run_s, stage.ssh().command("true"), environment),
            "remote": partial(run_s, [lbrun, "-H", "h2", TRUE], environment),
            "held": Held(str(lab.socket("h1", "lbm")), b"h2").run_s,
        }
    needed = wanted | ({"python"} if wanted & {"local", "here"} else set())
    needed |= {"ssh"} if wanted & {"remote", "held"} else set()
    cases = {name: case for name, case in cases.items() if name in needed}
    stage.others.wait_until_quiet(0 if stage.quick else 20)
    mark = stage.others.mark()
    samples = in_turns(cases, stage.runs, stage.rng, WARM_UP_ROUNDS)
    others = stage.others.share_since(mark)
    found = {name: summarise([1e3 * s for s in taken]) for name, taken in samples.items()}
    figures = {
        "local": ("lbrun --local true", PYTHON, "python", 1.35),
        "here": ("lbrun true, answer here", PYTHON, "python", 1.5),
        "remote": ("lbrun -H h2 true", SSH, "ssh", 1.7),
        "held": ("h2 true, a client held ready", SSH, "ssh", 0.30),
    }
    return [
        Row(title, "ms", found[name], rival_name, found[rival], Bound(limit), others)
        for name, (title, rival_name, rival, limit) in figures.items()
        if name in wanted
    ]


class Held:
    """A client that is already running: only the protocol and the daemons are measured.

    The protocol has one connection a command, so connecting is part of it.
    """

    def __init__(self, path: str, host: bytes) -> None:
        self._path = path
        devnull = os.open("/dev/null", os.O_RDWR)
        self._descriptors = [devnull, devnull, 2]
        pairs = [
            (tags.DIRECTORY, os.fsencode(os.getcwd())),
            (tags.UMASK, b"18"),
            (tags.MODE, b"host"),
            (tags.FLAGS, tags.FLAG_NO_STDIN),
            (tags.CLOSED_FDS, b"0"),
            (tags.NULL_OUTPUTS, b"2"),
            (tags.DEPTH, b"0"),
            (tags.HOST, host),
            (tags.ARGUMENT, TRUE.encode()),
            (tags.ENVIRONMENT, b"PATH=/usr/bin:/bin"),
        ]
        body = b"".join(frames.field(key, value) for key, value in pairs)
        self._request = frames.pack(tags.RUN, body)

    def run_s(self) -> float:
        try:
            return self._run_s()
        except TimeoutError:
            text = f"held: no answer within {ANSWER_TIMEOUT_S:g} s"
            raise CannotMeasureError(text) from None

    def _run_s(self) -> float:
        began_s = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(ANSWER_TIMEOUT_S)
            sock.connect(self._path)
            sock.sendall(self._request)
            split = frames.Splitter(1 << 20)
            while data := sock.recv(1 << 16):
                for tag, body in split.feed(data):
                    if tag == tags.GIVE:
                        socket.send_fds(sock, [frames.pack(tags.DESCRIPTORS)], self._descriptors)
                    if tag == tags.DONE:
                        elapsed_s = time.perf_counter() - began_s
                        fields = dict(frames.fields(body))
                        if fields[tags.STATUS] != b"0":
                            raise CannotMeasureError(f"held: {fields}")
                        return elapsed_s
        raise CannotMeasureError("held: the lbm closed the connection")
