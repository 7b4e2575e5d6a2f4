import json
import tracemalloc
from random import Random

import pytest

from lbd.console.picking import picked, picking
from lbd.errors import PeerError
from lbd.local import frames
from lbd.local.json_socket import PLAIN

ANSWERS = [
    {},
    {"jobs": []},
    {"ok": True, "jobs": [{"id": "1", "command": ["a]", '"}', "\\"], "x": {"jobs": [1]}}, {}]},
    {"jobs": [{"id": str(n)} for n in range(9)], "missing": ["h1"], "id": 1},
    {"ok": False, "error": "no", "code": "usage", "jobs": None},
    {"other": [{"jobs": [{"id": "2"}]}], "jobs": {"id": 1}},
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("form", [{"separators": (",", ":")}, {"indent": 2}, {}])
def test_what_is_picked_is_what_the_answer_has(answer, form):
    found = []
    rest = picked(json.dumps(answer, **form), "jobs", found.append)
    if isinstance(answer.get("jobs"), list):
        assert (found, rest) == (answer["jobs"], answer | {"jobs": []})
    else:
        assert (found, rest) == ([], answer)


def test_of_a_long_list_the_objects_are_not_there_at_once():
    words = [f"w{number}" for number in range(1000)]
    body = json.dumps({"jobs": [{"id": str(number), "command": words} for number in range(400)]})
    sizes, names = {}, []
    ways = {"picked": lambda: picked(body, "jobs", lambda job: names.append(job["id"])),
            "whole": lambda: json.loads(body)}  # fmt: skip
    for way, read in ways.items():
        tracemalloc.start()
        read()
        sizes[way] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert names == [str(number) for number in range(400)]
    assert sizes["whole"] > 5 * len(body)
    assert sizes["picked"] < len(body) / 4


def test_what_is_no_json_is_an_error_of_the_daemon_and_nothing_else():
    whole = json.dumps(ANSWERS[2]).encode()
    rng = Random(1)
    broken = [whole[:end] for end in range(len(whole))]
    broken += [whole + b"x", b"[]", b'{"jobs":[1]}', b'{"jobs":[{}', b'{"a" 1}', b"\xff",
               b'{"jobs":' + b"[" * 100_000, b'{"a":' + b"[" * 100_000]  # fmt: skip
    for one in broken:
        with pytest.raises(PeerError):
            picking(PLAIN, "jobs", lambda job: None).decode(frames.JSON, one)
    for _ in range(500):
        one = bytearray(whole)
        one[rng.randrange(len(one))] = rng.randrange(256)
        try:
            expected = json.loads(bytes(one))
        except ValueError:
            expected = None
        try:
            found = picking(PLAIN, "jobs", lambda job: None).decode(frames.JSON, bytes(one))
        except PeerError:
            found = None
        assert (found is None) <= (expected is None or "jobs" in expected)
    with pytest.raises(PeerError, match="tagged"):
        picking(PLAIN, "jobs", lambda job: None).decode(b"X", whole)
