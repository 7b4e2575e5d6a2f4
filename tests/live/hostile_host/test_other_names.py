"""Hosts that try to pass for others by a name that TLS confuses with another's, or that go on after
they were revoked."""

import ast
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import grpc
import pytest

import lbd
from lbd.errors import LbdError
from lbd.lbm.link import wire as job_stream
from lbd.lim.core import messages as m
from lbd.model import LoadVector, Queues
from lbd.net import joining
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.transport import HOST_HEADER
from tests.live import trust
from tests.live.cluster import FAST, Lab
from tests.live.trust import Stranger, authority_on, files_of, in_place_of_lbm, made_for

PASSES_FOR_H3 = "0.h3.lbd."
QUEUE_PORT = 7903
LONG_S = 60


SETTINGS = (*FAST, "tls.revocation_check_s=0.5")
LAB = partial(Lab.up, 3, "none", "--tls", "--mode", "fcfs", settings=SETTINGS)


@pytest.mark.parametrize("name", [PASSES_FOR_H3, "*.h3.lbd.", "h3.", "H3", "h\n3"])
def test_no_token_makes_its_holder_another_host(lab, name):
    token = authority_on(lab).new_token("", 60.0, time.time())
    address = (lab.record.plan.address("h1"), 7901)
    with pytest.raises(LbdError, match=r"is not a valid host name|has already joined"):
        joining.join(address, token, name, time.time())
    assert name not in authority_on(lab).ledger().hosts
    joining.join(address, token, f"new{time.time_ns()}", time.time())  # the token was not spent


def test_a_certificate_with_such_a_name_gets_no_commands(lab):
    """Nobody is issued one; no command would go to its holder."""
    root = authority_on(lab)
    forged = made_for(root.credentials(), PASSES_FOR_H3)
    seen = []

    def take(_, context):
        seen.extend(context.auth_context()["x509_common_name"])
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "reached")

    def answer():
        done = lab.run("h1", "lbrun", "-H", "h3", "true")
        assert done.returncode == 125
        return "cannot be reached" in done.stderr

    lab.kill("h3", "lbm")
    try:
        with in_place_of_lbm(lab, "h3", forged, root.certificate, take):
            lab.wait_until(answer, "h3 cannot be reached")
        assert seen == []
    finally:
        lab.start("h3", "lbm")


def test_the_holder_of_such_a_certificate_is_not_served(lab):
    root = authority_on(lab)
    forged = Stranger(root.certificate, made_for(root.credentials(), PASSES_FOR_H3), says="h3")
    vector = LoadVector(0.0, Queues(), 0.0, 64.0, 1.0, 64, 0, 0, 0, True)
    sample = m.Sample("h3", time.time_ns(), 1 << 40, 0.0, vector, False)
    for code, details in (
        forged.ping(lab, "h1"),
        forged.jobs(lab, "h1"),
        forged.call(lab, "h1", 7901, trust.DELIVER, trust.message(lab, "h3", m.Report(sample))),
        forged.call(lab, "h1", QUEUE_PORT, "/lbd.v1.Dispatch/Submit", b""),
    ):
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert details == "only for hosts that have joined"


def test_every_long_call_of_a_revoked_host_ends(lab):
    """h2 keeps its calls open, whatever its own daemons do when they learn of the revocation."""
    lab.kill("h2", "lbm")  # a host has one connection to the dispatcher
    h2 = Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())
    job = lab.run("h1", "lbrun", "-d", "-x", "h2", "sleep", str(LONG_S), check=True).stdout.strip()

    def running_on():
        (row,) = lab.lbctl_json("h1", "jobs", job)
        return row["host"] if row["state"] == "running" else None

    lab.wait_until(running_on, "it runs")
    asked = dispatch_pb2.JobsAsked(selectors=[job]).SerializeToString()
    command = lbm_pb2.RunRequest(argv=[b"true"], directory=b"/", origin="h2", user="ann", uid=1001)
    queued = dispatch_pb2.SubmitRequest(
        user="ann", origin="h2", uid=1001, command=[b"true"], slots=1, count=1, only="h2",
        spec=dispatch_pb2.StoredSpec(run_request=command.SerializeToString()),
    ).SerializeToString()  # fmt: skip
    logs = dispatch_pb2.LogsRequest(job=job, attempt=1, follow=True).SerializeToString()
    opened = {
        "Run": ("h1", 7902, "/lbd.v1.Lbm/Run", None),
        "Logs": (running_on(), 7902, "/lbd.v1.Lbm/Logs", logs),
        "Watch": ("h1", QUEUE_PORT, "/lbd.v1.Dispatch/Watch", asked),
        "Queue": ("h1", QUEUE_PORT, "/lbd.v1.Dispatch/Queue", queued),
        "Work": ("h1", QUEUE_PORT, "/lbd.v1.Dispatch/Work", None),
    }
    ends_by_itself = {"Files"}
    assert streaming_methods() == {*opened, *ends_by_itself}
    codes, stop = {}, threading.Event()
    with ExitStack() as stack:
        stack.callback(stop.set)
        threads = []
        for name, (host, port, method, request) in opened.items():
            channel = stack.enter_context(h2.channel(lab, host, port))
            begun = threading.Event()
            what = (channel, method, request, stop, begun)
            work = threading.Thread(
                target=lambda n, w: codes.update({n: last(*w)}), args=(name, what)
            )
            work.start()
            threads.append(work)
            if name in ("Watch", "Queue"):
                assert begun.wait(LONG_S)
        time.sleep(1.0)  # the other calls send nothing that shows they are open
        assert codes == {}
        lab.run("h1", "lbctl", "revoke", "h2", check=True)
        for thread in threads:
            thread.join(LONG_S)
    ended = {grpc.StatusCode.ABORTED, grpc.StatusCode.PERMISSION_DENIED}
    assert set(codes) == set(opened)
    assert set(codes.values()) <= ended, codes
    lab.run("h1", "lbctl", "kill", job, check=True)


def last(channel, method, request, stop, begun):
    """The code with which the call ends."""
    metadata = ((HOST_HEADER, "h2"),)
    if request is None:

        def nothing():
            yield job_stream.pack(1, job_stream.UNKNOWN, b"?") if method.endswith("Run") else b""
            stop.wait(LONG_S)

        call = channel.stream_stream(method)(nothing(), timeout=LONG_S, metadata=metadata)
    else:
        call = channel.unary_stream(method)(request, timeout=LONG_S, metadata=metadata)
    try:
        for _ in call:
            begun.set()
    except grpc.RpcError as problem:
        return problem.code()
    return "it ended by itself"


def streaming_methods():
    """The streaming methods of all services, by their names on the wire."""
    found = set()
    for path in Path(lbd.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                found |= {
                    key.value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if isinstance(key, ast.Constant)
                    and any(f"{kind}_rpc" in ast.unparse(value)
                            for kind in ("unary_stream", "stream_unary", "stream_stream"))
                }  # fmt: skip
    return found
