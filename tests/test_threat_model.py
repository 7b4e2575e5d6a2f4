"""Checks docs/explanation/security.md: the tests that its tables name for each attack exist."""

import ast
import re
from functools import cache

import pytest

from tests.test_tidy import ROOT, tree

TEXT = (ROOT / "docs/explanation/security.md").read_text()
ROWS = [
    row.strip("| ").split(" | ")
    for section in TEXT.split("\n## ")
    if "| attack |" in section
    for row in section.splitlines()
    if row.startswith("| ") and not row.startswith(("| attack", "| ---"))
]
NAMED = re.compile(r"`([^`]*)::(test_\w+)`")


@cache
def names_in(path: str) -> set[str]:
    found = ast.walk(tree(ROOT / "tests" / path))
    return {node.name for node in found if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_attacks():
    assert len(ROWS) > 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_attack_has_its_tests(row):
    assert len(row) == 3, "attack | what happens | test"
    named = NAMED.findall(row[2])
    assert named, "it names no test"
    path = ""
    for given, name in named:
        path = given or path
        assert name in names_in(path), f"{path} has no {name}"
