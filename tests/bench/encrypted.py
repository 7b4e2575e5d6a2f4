"""The cost of mutual TLS: a command on another host, and long streams, beside ssh, which encrypts
too. The lab's hosts have certificates here."""

from functools import partial

from tests.bench import streams
from tests.bench.front import SSH, TRUE, taken
from tests.bench.measure import run_s, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    """Measures those wanted of tls-remote, tls-front-remote, tls-stdout and tls-stdin."""
    rows = measure_true(stage, wanted & {"tls-remote", "tls-front-remote"})
    ways = {name.removeprefix("tls-") for name in wanted}
    return rows + streams.measured(stage, stage.tls_lab(), ways, 1.5, "TLS: ")


def measure_true(stage: Stage, wanted: set[str]) -> list[Row]:
    if not wanted:
        return []
    environment = stage.tls_lab().environment("h1")
    cases = {"ssh": partial(run_s, stage.ssh().command("true"), environment)}
    clients = {"tls-remote": stage.installation.lbrun}
    if "tls-front-remote" in wanted:
        clients["tls-front-remote"] = stage.installation.front()
    for name in wanted:
        cases[name] = partial(run_s, [str(clients[name]), "-H", "h2", TRUE], environment)
    samples, others = taken(stage, cases)
    ms = {name: summarise([1e3 * s for s in each]) for name, each in samples.items()}
    figures = {
        "tls-remote": ("TLS: lbrun -H h2 true", 1.75),
        "tls-front-remote": ("TLS, front: lbrun -H h2 true", 0.42),
    }
    return [
        Row(title, "ms", ms[name], SSH, ms["ssh"], Bound(limit), others)
        for name, (title, limit) in figures.items()
        if name in wanted
    ]
