"""Fuzz targets for the metrics listener: requests of strangers, and answers of its host's
daemons."""

import contextlib
import json

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lbd.metrics.core.families import families
from lbd.metrics.core.request import PATHS, PHRASES, Asked, answer_head, read_head
from lbd.metrics.core.table import HOSTS_MAX
from lbd.metrics.exposition import text_of

ANSWERS = {
    "lim": {
        "load_index": 0.5, "hosts": [["up", 3]], "host_load_index": [["h1", 0.5], ["h2", 1e9]],
        "decisions": [["GLOBAL", "lowest", 7]], "drained": False,
        "lim_messages": [["Report", "in", 3]],
    },
    "lbm": {
        "jobs_ended": [["done", "attached", 3]],
        "lease_margin_seconds": {"counts": [0] * 13 + [1], "sum": 400.5},
        "job_slowdown": [["queued", {"counts": [1] * 12, "sum": 3.0}]],
    },
    "metrics": {"up": [["lim", 1]], "release_info": [["0.1.0", 1]], "process_open_fds": 9},
}  # fmt: skip
SEEDS = {
    "metrics_requests": (
        b"GET /metrics HTTP/1.1\r\nHost: h1:9470\r\nAccept: application/openmetrics-text\r\n\r\n",
        b"HEAD /readyz?x=1 HTTP/1.0\r\n\r\n",
    ),
    "metrics_answers": (json.dumps(ANSWERS).encode(),),
}


def metrics_requests(data: bytes) -> None:
    """Any request is one of three questions, or gets a status and a line."""
    found = read_head(data)
    if isinstance(found, Asked):
        assert found.path in PATHS
        return
    assert found.status in PHRASES
    assert found.says.isprintable()
    assert answer_head(found.status, "text/plain", 1).count(b"\r\n\r\n") == 1


def metrics_answers(data: bytes) -> None:
    """Prometheus can read a daemon's answer, or the answer is left out."""
    with contextlib.suppress(ValueError, RecursionError):
        said = json.loads(data)
        if not isinstance(said, dict):
            return
        answers = {name: one for name, one in said.items() if isinstance(one, dict)}
        found = families(answers)
        assert all(len(family.series) <= HOSTS_MAX + 1 for family in found)
        text = text_of(found).decode()
        read = [family.name for family in text_string_to_metric_families(text)]
        assert read == [family.metric.full_name for family in found]


ALL = (metrics_requests, metrics_answers)
