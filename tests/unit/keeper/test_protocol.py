"""A tag means one thing: two orders with the same tag would be confused."""

import ast
import inspect

import pytest

from lbd.keeper import protocol


def tags(heading: str) -> list[bytes]:
    """Returns the tags in the paragraph of protocol.py that begins with this comment."""
    _, found, rest = inspect.getsource(protocol).partition(f"# {heading}\n")
    assert found
    lines = list(iter(iter(rest.splitlines()).__next__, ""))
    paragraph = ast.parse("\n".join(line for line in lines if not line.startswith("#")))
    return [ast.literal_eval(line.value) for line in paragraph.body]


@pytest.mark.parametrize("heading", ["LBM -> keeper", "keeper -> LBM"])
def test_no_two_orders_or_reports_have_the_same_tag(heading):
    found = tags(heading)
    assert len(found) > 5
    assert len(set(found)) == len(found)
