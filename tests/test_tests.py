"""Tests of the tests: one that pytest does not find never fails."""

import ast

import pytest

from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.test_tidy import ROOT, shown, sources, tree

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def hidden(node: ast.AST) -> list[str]:
    """Tests inside a function, or in a class that is not called Test…"""
    found = []
    for child in ast.iter_child_nodes(node):
        hides = isinstance(node, FUNCTION) or (
            isinstance(node, ast.ClassDef) and not node.name.startswith("Test")
        )
        if hides and isinstance(child, FUNCTION) and child.name.startswith("test_"):
            found.append(child.name)
        found += hidden(child)
    return found


@pytest.mark.parametrize("path", sources(ROOT / "tests"), ids=shown)
def test_every_test_is_found(path):
    assert not hidden(tree(path)), f"{shown(path)}: pytest does not see it there"


def test_hidden_tests_are_noticed():
    text = (
        "def helper():\n    return 1\n\n    def test_a(): ...\n"
        "class Parts:\n    async def test_b(self): ...\n"
        "class TestParts:\n    def test_c(self): ...\n"
        "def test_d(): ...\n"
    )
    assert hidden(ast.parse(text)) == ["test_a", "test_b"]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((-2.0, -1.0), "ok"), ((-1.0, 1.0), "undecided"), ((1.0, 2.0), "SHORT"), (None, "ok")],
)
def test_a_random_figure_is_judged_by_its_whole_interval(interval, verdict):
    ours = summarise([sum(interval or (-1.0, 0.0)) / 2])
    row = Row("saved", "s", ours, asked=Bound(0.0, of_ratio=False), interval=interval)
    assert row.verdict == verdict
