"""For every test: marks by directory."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: "list[pytest.Item]") -> None:
    for item in items:
        if TESTS / "live" in item.path.parents:
            item.add_marker(pytest.mark.live)
