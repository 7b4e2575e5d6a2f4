"""Output for programs."""

import json
import math

from lbd.console.output import print_json


def test_a_missing_number_is_null_at_any_depth(capsys):
    print_json({"a": math.nan, "b": [1.5, math.inf], "c": {"d": (math.nan, 2, "x", None, True)}})
    out = capsys.readouterr().out
    found = json.loads(out, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert found == {
        "schema": 1, "a": None, "b": [1.5, None], "c": {"d": [None, 2, "x", None, True]},
    }  # fmt: skip


def test_each_item_of_a_list_is_marked(capsys):
    print_json([{"a": 1}, {"b": math.inf}])
    assert json.loads(capsys.readouterr().out) == [{"schema": 1, "a": 1}, {"schema": 1, "b": None}]
    print_json([])
    assert json.loads(capsys.readouterr().out) == []


def test_each_item_of_a_stream_is_a_line(capsys):
    print_json({"a": {"b": [1, 2]}}, in_a_line=True)
    assert capsys.readouterr().out == '{"schema": 1, "a": {"b": [1, 2]}}\n'
