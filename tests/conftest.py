"""For every test: marks by directory, the order of files, and signals as a terminal gives them."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from lbd.net import grpc_environment

# As in our programs: before anything imports gRPC, whose own log lines would appear in tests.
grpc_environment.settle(os.environ)

# The duration of a hypothesis example shows only how busy the machine is.
settings.register_profile("lbd", deadline=None)
settings.load_profile("lbd")

TESTS = Path(__file__).parent
# Files with few tests take as long as files with many: one that starts last would delay the end.
LONG = (
    "test_lbsh_conformance.py", "test_kill_points.py", "test_quickstart.py", "test_experiment.py",
    "test_queue_crash.py", "test_queue_restarts.py", "test_gibibyte.py", "test_queue_line.py",
    "test_backup.py",
)  # fmt: skip

# A process started in the background, or by nohup, ignores these signals, and so do its children.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


def pytest_collection_modifyitems(items: "list[pytest.Item]") -> None:
    for item in items:
        if TESTS / "live" in item.path.parents:
            item.add_marker(pytest.mark.live)
    count = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path.name not in LONG, -count[item.path]))
