"""What programs read."""

import json
import math

from lbd.cli.output import print_json


def test_a_number_that_there_is_not_is_null_however_deep(capsys):
    print_json({"a": math.nan, "b": [1.5, math.inf], "c": {"d": (math.nan, 2, "x", None, True)}})
    out = capsys.readouterr().out
    found = json.loads(out, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert found == {
        "schema": 1, "a": None, "b": [1.5, None], "c": {"d": [None, 2, "x", None, True]},
    }  # fmt: skip
