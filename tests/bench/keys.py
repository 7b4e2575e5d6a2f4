"""From a keystroke to its echo: at the terminal of a command elsewhere, and through warm ssh."""

import os
import select
import signal
import subprocess
import time
import tty
from functools import partial

from tests.bench.bare_grpc import BareStream
from tests.bench.measure import CannotMeasureError, Summary, in_turns, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

KEYS_PER_RUN = 20
WARM_UP_KEYS = 50
ANSWER_TIMEOUT_S = 10.0
SSH = "ssh -t, warm master"


def measure(stage: Stage, _wanted: set[str]) -> list[Row]:
    """The far terminal echoes, so only the way there and back is measured, and no program."""
    lbrun = [str(stage.installation.lbrun), "-t", "-H", "h2", "sleep", "600"]
    ssh = [*stage.ssh().command(), "-tt", "sleep", "600"]
    with (
        Typist(lbrun, stage.lab().environment("h1")) as ours,
        Typist(ssh, dict(os.environ)) as rival,
        BareStream() as bare,
    ):
        cases = {"ours": ours.key_s, "rival": rival.key_s, "bare": bare.echo_s}
        stage.others.wait_until_quiet(0 if stage.quick else 20)
        mark = stage.others.mark()
        samples = in_turns(cases, KEYS_PER_RUN * stage.runs, stage.rng, WARM_UP_KEYS)
        others = stage.others.share_since(mark)
    found = {name: [1e3 * s for s in taken] for name, taken in samples.items()}
    row = partial(Row, unit="ms", rival_name=SSH, asked=Bound(1.5), others=others)
    middle = {name: summarise(taken) for name, taken in found.items()}
    last = {name: at_99(taken) for name, taken in found.items()}
    return [
        row("echo of a key", ours=middle["ours"], rival=middle["rival"]),
        row("echo of a key, p99", ours=last["ours"], rival=last["rival"]),
        # The round trip of every key: the rest is the share of two daemons, a client and a
        # terminal.
        row("a bare gRPC stream", ours=middle["bare"], rival=middle["rival"], asked=None),
    ]


def at_99(samples: list[float]) -> Summary:
    """The 99th percentile of each tenth of the samples: their spread shows how certain it is."""
    size = max(1, len(samples) // 10)
    parts = [sorted(samples[at : at + size]) for at in range(0, len(samples), size)]
    return summarise([part[min(len(part) - 1, int(0.99 * len(part)))] for part in parts])


class Typist:
    """A context manager: a command at a pty of ours, in the modes of any terminal."""

    def __init__(self, argv: list[str], environment: dict[str, str]) -> None:
        self._argv = argv
        self._environment = environment

    def __enter__(self) -> "Typist":
        self._master, slave = os.openpty()
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *self._argv], stdin=slave, stdout=slave, stderr=slave,
            env={"TERM": "linux", **self._environment},
        )  # fmt: skip
        os.close(slave)
        deadline_s = time.monotonic() + ANSWER_TIMEOUT_S
        while not is_raw(self._master):
            if time.monotonic() > deadline_s:
                raise CannotMeasureError(f"{self._argv[0]}: no raw terminal")
            time.sleep(0.05)
        time.sleep(0.5)
        while select.select([self._master], [], [], 0)[0]:
            os.read(self._master, 1 << 16)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._master)
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()

    def key_s(self) -> float:
        began_s = time.perf_counter()
        os.write(self._master, b"x")
        if not select.select([self._master], [], [], ANSWER_TIMEOUT_S)[0]:
            raise CannotMeasureError(f"{self._argv[0]}: no echo")
        seen = os.read(self._master, 100)
        elapsed_s = time.perf_counter() - began_s
        if seen != b"x":
            raise CannotMeasureError(f"{self._argv[0]}: {seen!r} for an echo")
        return elapsed_s


def is_raw(descriptor: int) -> bool:
    local: int = tty.tcgetattr(descriptor)[3]
    return not local & (tty.ICANON | tty.ECHO)
