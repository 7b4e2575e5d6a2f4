"""The cached common parts of attempts give the same order as if it were made anew for each."""

from dataclasses import replace

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.keeper.local_account import LocalUser
from lbd.keeper.spawn_order import Order, pack_order, read_order
from lbd.launch.directory_stamp import ANY_BOOT
from lbd.lbm.inbound.request import make_order
from lbd.lbm.inbound.submitted import KNOWN, OWN, Submitted, fault_of_start
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.text.command_words import QUEUED_FIELDS_MAX, QUEUED_WORDS_MAX, TOO_MANY_WORDS

CONFIG = Config(host=HostConfig(name="h1"))
ANN = LocalUser("ann", 1000, 1000, (1000, 27), "/home/ann", "/bin/sh")
REQUEST = lbm_pb2.RunRequest(
    argv=[b"echo", b""], environment=[b"A=1", b"B=", b"LBD_ARRAY_INDEX=7", b"LBD_JOB_ID=outer"],
    directory=b"/tmp", umask=0o027, user="ann", origin="h2", uid=1000, nice=3, ignored_signals=2,
    limits=[lbm_pb2.ResourceLimit(resource=1, soft=2, hard=3)],
)  # fmt: skip


def started(request=REQUEST, origin="h2", user="ann", uid=1000):
    """Returns what the dispatcher orders in this user's name."""
    stored = request if isinstance(request, bytes) else request.SerializeToString()
    spec = dispatch_pb2.StoredSpec(run_request=stored)
    return dispatch_pb2.Start(job="3", attempt=1, spec=spec, origin=origin, user=user, uid=uid)


def asked(common, run_as=ANN, config=CONFIG) -> Order:
    order = common.order(started(), run_as, config, limited_cpu=True)
    order.job = "3.1"
    return read_order(pack_order(order))


def test_the_order_is_the_same_except_for_the_variables_of_the_attempt():
    common = Submitted().common(started())
    assert common.fault == ""
    expected = make_order(REQUEST, ANN, CONFIG)
    expected.job = "3.1"
    expected.environment = {k: v for k, v in expected.environment.items() if k not in OWN}
    expected.environment |= {b"LBD_ATTEMPT": b"1", b"LBD_TIER": b"0", b"LBD_SLOTS": b"1"}
    assert asked(common) == asked(common) == expected


def test_attempts_that_differ_in_their_numbers_have_their_own_variables():
    common = Submitted().common(started())
    for attempt, array in ((1, 0), (2, 7), (1, 0), *((number, 0) for number in range(1, 99))):
        start = started()
        start.attempt, start.array, start.tier, start.slots = attempt, array, 3, 4
        order = common.order(start, ANN, CONFIG, limited_cpu=True)
        order.job = "3.1"
        found = read_order(pack_order(order)).environment
        assert found[b"LBD_ATTEMPT"] == b"%d" % attempt
        assert (found[b"LBD_TIER"], found[b"LBD_SLOTS"]) == (b"3", b"4")
        assert found.get(b"LBD_ARRAY_ID") == (b"%d" % array if array else None)
    assert len(common._packed) <= KNOWN


def test_the_words_and_variables_of_an_attempt_are_packed_with_it():
    order = Submitted().common(started()).order(started(), ANN, CONFIG, limited_cpu=True)
    order.job, order.argv, order.subject = "3.1", [b"sh", b"-c"], b"echo"
    order.environment = {b"LBD_JOB_ID": b"3"}
    found = read_order(pack_order(order))
    assert (found.argv, found.subject) == ([b"sh", b"-c"], b"echo")
    assert (found.environment[b"LBD_JOB_ID"], found.environment[b"A"]) == (b"3", b"1")


def test_another_account_or_configuration_is_respected():
    common = Submitted().common(started())
    assert asked(common).user[0] == 1000
    assert asked(common, replace(ANN, uid=1001)).user[0] == 1001
    renamed = replace(CONFIG, host=HostConfig(name="h3"))
    assert asked(common, ANN, renamed).environment[b"LBD_HOST"] == b"h3"


def test_a_damaged_request_is_reported():
    assert Submitted().common(started(b"\xff\xff")).fault == "not a RunRequest"
    damaged = started(lbm_pb2.RunRequest(umask=1 << 20))
    assert "umask" in Submitted().common(damaged).fault


def test_only_a_few_are_kept():
    known = Submitted()
    requests = [started(lbm_pb2.RunRequest(umask=n)) for n in range(KNOWN + 1)]
    first, *_ = [known.common(one) for one in requests]
    assert known.common(requests[-1]) is known.common(requests[-1])
    assert known.common(requests[0]) is not first


def test_the_user_admitted_and_run_as_is_the_submitter():
    """A stored request without a user belongs to its submitter; one with another user to nobody."""
    unnamed = lbm_pb2.RunRequest(argv=[b"id"], directory=b"/", umask=0o22)
    common = Submitted().common(started(unnamed, "h3", "bob", 1002))
    assert common.fault == ""
    found = common.request
    assert (found.origin, found.user, found.uid) == ("h3", "bob", 1002)
    for other in ({"origin": "h1"}, {"user": "root"}, {"uid": 0}, {"uid": 1001}):
        fault = Submitted().common(started(**other)).fault
        assert "claims to be ann (uid 1000) on h2" in fault, other


def test_the_same_request_of_two_submitters_gives_two_entries():
    known = Submitted()
    assert known.common(started()).fault == ""
    assert known.common(started(user="bob")).fault != ""
    assert known.common(started()).fault == ""


def test_an_order_of_a_dispatcher_that_does_not_name_the_submitter_is_refused_in_one_line():
    for missing in ("origin", "user", "uid"):
        start = started()
        start.ClearField(missing)
        assert "does not say whose it is" in Submitted().common(start).fault


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job", "h3-17"), ("job", "5.1"), ("job", "0"), ("job", ""), ("job", "1" * 30),
        ("attempt", 0), ("attempt", 1 << 31), ("lease_s", float("nan")), ("lease_s", 0.0),
        ("lease_s", float("inf")), ("lease_s", 1e308), ("lease_s", 86401.0),
        ("cutoff_s", float("nan")), ("cutoff_s", -1.0), ("cutoff_s", 1e308),
        ("requeued", float("inf")), ("requeued", 1e300), ("slots", 1 << 20), ("array_index", -1),
    ],
)  # fmt: skip
def test_an_order_that_cannot_be_is_said(field, value):
    start = started()
    start.lease_s = 30.0
    assert fault_of_start(start) == ""
    setattr(start, field, value)
    assert field in fault_of_start(start)


def test_host_names_that_do_not_fit_one_variable_are_reported():
    start = started()
    start.lease_s = 30.0
    start.gang_hosts.extend(["h" * 63] * 2047)
    assert fault_of_start(start) == ""
    start.gang_hosts.append("h" * 63)
    assert fault_of_start(start) == "gang_hosts"


@pytest.mark.parametrize(("kind", "kernel"), [("ext4", ANY_BOOT), ("fuse.sshfs", None)])
@pytest.mark.parametrize("origin", ["h1", "h2"])
def test_the_directory_of_a_job_of_this_hosts_own_may_be_one_of_before_a_reboot(
    origin, kind, kernel
):
    """After a restart of the machine its device may be another: each job that had waited failed
    with `the directory /var/tmp is not shared with h1`, on h1."""
    request = lbm_pb2.RunRequest(
        job_id="3.1", origin=origin, user="ann", uid=1000, argv=[b"true"], directory=b"/var/tmp"
    )
    before = lbm_pb2.DirectoryStamp(kernel="before", device=1, inode=2, file_system=kind)
    request.directory_stamp.CopyFrom(before)
    config = replace(CONFIG, host=HostConfig(name="h1"))
    stamp = make_order(request, ANN, config).stamp
    found = stamp.kernel if stamp is not None else None
    assert found == (kernel if origin == "h1" else "before")


@pytest.mark.parametrize("words", [QUEUED_WORDS_MAX, QUEUED_WORDS_MAX + 1, 240_000])
def test_one_with_more_words_than_a_queued_job_may_have_is_not_begun(words):
    """Its user could have it started again and again, and all words read each time."""
    request = lbm_pb2.RunRequest()
    request.CopyFrom(REQUEST)
    request.argv[:] = [b"x"] * (words - len(request.environment))
    common = Submitted().common(started(request))
    assert common.fault == ("" if words == QUEUED_WORDS_MAX else TOO_MANY_WORDS)
    if common.fault:
        assert not common.request.argv, "they are not kept"
    assert QUEUED_FIELDS_MAX > QUEUED_WORDS_MAX + 11_000  # with the names of files


def test_what_is_kept_of_submissions_is_bounded_in_bytes():
    """Eight submissions of 6 MB, each started eight times, took half a gigabyte."""
    submitted, limit = Submitted(), 60_000_000
    for number in range(8):
        variables = [b"V%d_%d=" % (number, at) + b"x" * 130_000 for at in range(43)]
        request = lbm_pb2.RunRequest()
        request.CopyFrom(REQUEST)
        request.environment.extend(variables)
        for attempt in range(1, 9):
            start = started(request)
            start.attempt = attempt
            common = submitted.common(start)
            order = common.order(start, ANN, CONFIG, limited_cpu=True)
            assert b"LBD_ATTEMPT=%d" % attempt in order.packed
            assert submitted.bytes == sum(
                2 * len(key[0]) + sum(map(len, one._packed.values()))
                for key, one in submitted._known.items()
            ) < limit  # fmt: skip
            assert submitted.common(start) is common
    assert len(submitted._known) == 1
