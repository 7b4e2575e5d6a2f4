"""For every test: marks by directory, which files come first, and signals as a terminal would."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from lbd.net import grpc_environment

# As in our programs: before anything imports gRPC, whose own lines would be among what is tested.
grpc_environment.settle(os.environ)

# How long an example takes says how busy the machine is.
settings.register_profile("lbd", deadline=None)
settings.load_profile("lbd")

TESTS = Path(__file__).parent
# Files of few tests that take as long as files of many: one that began last would be waited for.
LONG = (
    "test_lbsh_conformance.py", "test_kill_points.py", "test_quickstart.py", "test_experiment.py",
    "test_queue_crash.py", "test_queue_restarts.py", "test_gibibyte.py", "test_queue_line.py",
    "test_backup.py",
)  # fmt: skip

# Started in the background, or by nohup, we would ignore these, and so would all that we start.
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
