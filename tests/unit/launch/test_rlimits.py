"""Limits of a child, in a process that may keep its own."""

import resource
import subprocess
import sys

import pytest

from lbd.keeper.spawn_order import Order, pack_order, read_order
from lbd.launch.rlimits import ONLY_LOWERED, taken
from lbd.lbm.outbound.request import packed_limits
from lbd.net.gen import lbm_pb2

SCRIPT = """
import resource, sys
from lbd.launch.rlimits import lower
own, asked = map(int, sys.argv[1:])
if own:
    resource.setrlimit(resource.RLIMIT_DATA, (own // 2, own))
lower(resource.RLIMIT_DATA, asked)
print(*resource.getrlimit(resource.RLIMIT_DATA))
"""
GIB = 1 << 30


@pytest.mark.parametrize(
    ("own", "asked", "kept"),
    [(4 * GIB, 2 * GIB, 2 * GIB), (2 * GIB, 4 * GIB, 2 * GIB), (0, 2 * GIB, 2 * GIB)],
)
def test_a_limit_never_exceeds_the_own_one(own, asked, kept):
    seen = subprocess.check_output(
        [sys.executable, "-c", SCRIPT, str(own), str(asked)], text=True, timeout=90
    )
    assert seen.split() == [str(kept)] * 2


@pytest.mark.parametrize("limits", [(), ((7, 64, 128), (4, 0, (1 << 64) - 1)), ((7, 65, 128),)])
def test_limits_travel_to_the_other_host_and_to_its_keeper(limits):
    request = lbm_pb2.RunRequest(job_id="h1-1")
    request.MergeFromString(packed_limits(limits))
    travelled = tuple((item.resource, item.soft, item.hard) for item in request.limits)
    order = Order(job="h1-1", argv=[b"true"], limits=travelled)
    assert read_order(pack_order(order)).limits == tuple(limits)


NONE = resource.RLIM_INFINITY
NOFILE = resource.RLIMIT_NOFILE


@pytest.mark.parametrize(
    ("asked", "own", "set_here"),
    [
        ((100, 200), (300, 400), (100, 200)),
        ((100, 800), (300, 400), (100, 400)),
        ((500, 800), (300, 400), (400, 400)),
        ((500, 200), (300, 400), (200, 200)),
        ((300, 400), (300, 400), None),
        ((300, 800), (300, 400), None),
        ((1 << 63, (1 << 64) - 1), (300, 400), (400, 400)),
        ((1 << 63, 1 << 63), (300, NONE), (NONE, NONE)),
        ((5, 1 << 63), (NONE, NONE), (5, NONE)),
        ((-5, -5), (300, 400), (400, 400)),
    ],
)
def test_the_hard_limit_of_a_client_never_exceeds_that_of_the_host(asked, own, set_here):
    assert taken(NOFILE, *asked, own) == set_here


@pytest.mark.parametrize("number", sorted(ONLY_LOWERED))
@pytest.mark.parametrize(
    ("asked", "set_here"),
    [((20, 30), (20, 30)), ((250, 300), (200, 300)), ((1 << 63, 1 << 63), None)],
)
def test_limits_that_give_precedence_over_others_can_only_be_lowered(number, asked, set_here):
    assert taken(number, *asked, (200, 400)) == set_here
