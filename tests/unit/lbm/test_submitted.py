"""What attempts have in common makes the same order as if it were worked out anew for each."""

from dataclasses import replace

from lbd.config import Config, HostConfig
from lbd.lbm.orders import make_order
from lbd.lbm.spawn_order import Order, pack_order, read_order
from lbd.lbm.submitted import KNOWN, OWN, Submitted
from lbd.lbm.users import LocalUser
from lbd.rpc.gen import lbm_pb2

CONFIG = Config(host=HostConfig(name="h1"))
ANN = LocalUser("ann", 1000, 1000, (1000, 27), "/home/ann", "/bin/sh")
REQUEST = lbm_pb2.RunRequest(
    argv=[b"echo", b""], environment=[b"A=1", b"B=", b"LBD_ARRAY_INDEX=7", b"LBD_JOB_ID=outer"],
    directory=b"/tmp", umask=0o027, user="ann", origin="h2", nice=3, ignored_signals=2,
    limits=[lbm_pb2.ResourceLimit(resource=1, soft=2, hard=3)],
)  # fmt: skip


def asked(common, run_as=ANN, config=CONFIG) -> Order:
    order = common.order(run_as, config, limited_cpu=True)
    order.job = "3.1"
    return read_order(pack_order(order))


def test_the_order_is_the_same_but_for_the_attempts_own_variables():
    common = Submitted().common(REQUEST.SerializeToString())
    assert common.fault == ""
    expected = make_order(REQUEST, ANN, CONFIG)
    expected.job = "3.1"
    expected.environment = {k: v for k, v in expected.environment.items() if k not in OWN}
    assert asked(common) == asked(common) == expected


def test_an_attempts_own_words_and_variables_are_packed_with_it():
    order = Submitted().common(REQUEST.SerializeToString()).order(ANN, CONFIG, limited_cpu=True)
    order.job, order.argv, order.subject = "3.1", [b"sh", b"-c"], b"echo"
    order.environment = {b"LBD_JOB_ID": b"3"}
    found = read_order(pack_order(order))
    assert (found.argv, found.subject) == ([b"sh", b"-c"], b"echo")
    assert (found.environment[b"LBD_JOB_ID"], found.environment[b"A"]) == (b"3", b"1")


def test_another_account_or_configuration_is_heeded():
    common = Submitted().common(REQUEST.SerializeToString())
    assert asked(common).user[0] == 1000
    assert asked(common, replace(ANN, uid=1001)).user[0] == 1001
    renamed = replace(CONFIG, host=HostConfig(name="h3"))
    assert asked(common, ANN, renamed).environment[b"LBD_HOST"] == b"h3"


def test_a_damaged_request_is_said():
    assert Submitted().common(b"\xff\xff").fault == "no RunRequest"
    damaged = lbm_pb2.RunRequest(umask=1 << 20).SerializeToString()
    assert "umask" in Submitted().common(damaged).fault


def test_only_a_few_are_kept():
    known = Submitted()
    requests = [lbm_pb2.RunRequest(umask=n).SerializeToString() for n in range(KNOWN + 1)]
    first, *_ = [known.common(one) for one in requests]
    assert known.common(requests[-1]) is known.common(requests[-1])
    assert known.common(requests[0]) is not first
