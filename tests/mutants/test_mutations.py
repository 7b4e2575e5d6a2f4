"""Tests of the changes that tests/mutants/run makes."""

import ast
from pathlib import Path

import pytest

from lbd.dispatch.core import lifecycle, retry
from lbd.theory import target_time
from tests.mutants.mutations import mutations
from tests.mutants.runner import (
    EQUIVALENT,
    ROOT,
    Entered,
    code_of,
    in_turns,
    modules_with,
    unlikely_if,
)


@pytest.mark.parametrize(
    ("body", "became"),
    [
        ("return a < b", ["return a < b → return None", "a < b → a <= b", "a < b → a >= b"]),
        ("return a is b", ["return a is b → return None", "a is b → a is not b"]),
        (
            "if a and b: go",
            ["a and b → a or b", "a and b → b", "a and b → a", "a and b → not (a and b)"],
        ),
        ("while not a: go", ["not a → a"]),
        ("a.x = 1", ["a.x = 1 → (dropped)", "1 → 2"]),
        ("a = b - True", ["b - True → b + True", "True → False"]),
        ("min(a)", ["min(a) → (dropped)", "min(a) → max(a)"]),
        ("raise Wrong('a b', 1)", ["raise Wrong('a b', 1) → (dropped)"]),
        ("return f'{a + 1}'", ["return f'{a + 1}' → return None"]),
        ("return None", []),
        ("go(zip(a, b, strict=True))", ["go(zip(a, b, strict=True)) → (dropped)"]),
    ],
)
def test_the_variants_of_a_function(body, became):
    tree = ast.parse(f"class C:\n    def f(a, b=1):\n        {body}\n")
    assert [str(m) for m in mutations(tree)] == [f"C.f: {change}" for change in became]


def test_a_change_reaches_the_code():
    tree = ast.parse("def f(a):\n    return a + 1\n\nLIMIT = 3\n")
    shown = [str(m) for m in mutations(tree)]
    assert shown[1:] == ["f: a + 1 → a - 1", "f: 1 → 2", "LIMIT: 3 → 4"]
    change = list(mutations(tree))[1]
    change.put(change.became)
    code = code_of(compile(tree, "f.py", "exec"), "f")
    assert code

    def f(a): ...

    f.__code__ = code
    assert f(5) == 4


def test_a_constant_changes_in_all_modules_that_imported_it():
    found = modules_with(Path(target_time.__file__), "EULER")
    assert found == [target_time]
    found = modules_with(Path(retry.__file__), "NOT_THERE")
    assert (found[0], set(found)) == (retry, {retry, lifecycle})
    assert modules_with(Path(retry.__file__), "Pauses.begin") == []


def test_tests_of_all_files_take_turns():
    efforts = {"a": (3, 1, 2), "b": (9,), "c": (4, 5)}
    rows = [Entered(Path(f), effort, 0.1, 0) for f, of in efforts.items() for effort in of]
    found = [(str(row.file), row.effort) for row in in_turns(rows)]
    assert found == [("a", 1), ("c", 4), ("b", 9), ("a", 2), ("c", 5), ("a", 3)]


def test_a_type_is_left_alone():
    tree = ast.parse("Answer = Yes | No\nRule = Literal['a', 'b']\nMODE = R | W\n")
    assert [str(m) for m in mutations(tree)] == ["MODE: R | W → R & W"]


def test_bad_luck_is_not_a_failure():
    assert not unlikely_if(0.5, killed=5, tried=20)
    assert unlikely_if(0.5, killed=0, tried=20)
    assert not unlikely_if(0.5, killed=0, tried=0)


def test_every_change_that_is_listed_as_meaning_nothing_can_be_made():
    """One that no longer can might excuse another change to the same words later."""
    listed = [line.split(" | ") for line in EQUIVALENT.read_text().splitlines()]
    assert all(len(row) == 3 and row[2] for row in listed)
    made = {
        file: {str(change) for change in mutations(ast.parse((ROOT / file).read_text()))}
        for file in {row[0] for row in listed}
    }
    assert [row for row in listed if row[1] not in made[row[0]]] == []
    assert len({(file, change) for file, change, _ in listed}) == len(listed)
