"""For every test: marks by directory, and signals as a terminal's shell would leave them."""

import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

# Started in the background, or by nohup, we would ignore these, and so would all that we start.
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


def pytest_collection_modifyitems(items: "list[pytest.Item]") -> None:
    for item in items:
        if TESTS / "live" in item.path.parents:
            item.add_marker(pytest.mark.live)
