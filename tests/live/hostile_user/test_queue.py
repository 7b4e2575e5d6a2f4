"""A local user writes to lbm.sock by hand and threatens everybody else's queue."""

from functools import partial

import pytest
from cluster import FAST, Lab
from rogue import client_request, connect, frames_of

from lbd.local import client_tags, frames

ARRAYS = (
    b"9223372036854775806-9223372036854775808", b"-1-3", b"3-1", b"0-99999999999999999",
    b"1,1", b"5,3", b"1-9%x", b"1-9:0", b"1-9:2,4",
    b"1_0-2_0", b"\xff", b"1-" + b"9" * 5000,
)  # fmt: skip
PRIORITIES = (b"-1000", b"9" * 30, b"nan", b"-9" * 10)


LAB = partial(Lab.up, 1, "none", "--mode", "fcfs", settings=FAST)


@pytest.mark.parametrize(
    "fields",
    [
        *({"ARRAY": array} for array in ARRAYS),
        *({"PRIORITY": priority} for priority in PRIORITIES),
        {"KEY": b"a\0b"}, {"KEY": b"\xff"}, {"SLOTS": b"1-99999999999"},
    ],
    ids=lambda fields: str(fields)[:40],
)  # fmt: skip
def test_a_number_that_cannot_be_does_not_get_to_the_queue(lab, fields):
    """2^63 as an array's index once made the commit of up to 1000 other submissions fail."""
    request = client_request("true", MODE=b"auto", FLAGS=client_tags.FLAG_DETACH, **fields)
    with connect(lab, "h1", "lbm") as sock:
        sock.sendall(frames.pack(client_tags.QUEUE, request))
        passing = (client_tags.TAKEN, client_tags.WARN)
        answers = [tag for tag, _ in frames_of(sock) if tag not in passing]
    assert client_tags.QUEUED not in answers
    done = lab.run("h1", "lbrun", "-q", "echo", "served")
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
