"""A compromised host, with its own valid certificate, submits jobs in the name of others."""

import time
from functools import partial

import grpc
import pytest
from cluster import FAST, Lab
from trust import RUN, Stranger, authority_on, files_of

from lbd.lbm.link import wire as job_stream
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2

QUEUE_PORT = 7903
SECONDS = 10


LAB = partial(Lab.up, 2, "none", "--tls", "--mode", "fcfs", settings=FAST)


@pytest.fixture(scope="module")
def h2(lab):
    return Stranger(authority_on(lab).certificate, files_of(lab, "h2").read_credentials())


def request(path, **fields):
    values = {
        "job_id": "0", "origin": "h2", "user": "root", "uid": 0, "directory": b"/", "umask": 0o22,
        "argv": [b"/bin/sh", b"-c", b"echo it ran >>%s" % bytes(path)], "closed_fds": 7,
        "environment": [b"PATH=/usr/bin:/bin"], "forced": True,
    } | fields  # fmt: skip
    return lbm_pb2.RunRequest(**values).SerializeToString()


def submit(lab, h2, stored, **fields):
    """The dispatcher's reply to h2."""
    values = {
        "user": "root", "uid": 0, "origin": "h2", "command": [b"sh"], "slots": 1, "count": 1,
        "spec": pb.StoredSpec(run_request=stored),
    } | fields  # fmt: skip
    with h2.channel(lab, "h1", QUEUE_PORT) as channel:
        ask = channel.unary_unary(
            "/lbd.v1.Dispatch/Submit", response_deserializer=pb.SubmitReply.FromString
        )
        return ask(pb.SubmitRequest(**values).SerializeToString(), timeout=SECONDS)


@pytest.mark.parametrize("inner", [{"origin": "h1"}, {"user": "daemon"}, {"uid": 1}], ids=str)
def test_the_queue_runs_nothing_for_whom_the_host_is_not(lab, h2, tmp_path, inner):
    """`[admission] origins` of the target once went by the identity inside the stored request."""
    reply = submit(lab, h2, request(tmp_path / "ran", **inner))
    assert "claims to be" in reply.error, reply
    assert lab.run("h1", "lbrun", "-q", "echo", "served").stdout == "served\n"
    assert not (tmp_path / "ran").exists()


def test_a_job_it_submits_in_its_own_name_runs(lab, h2, tmp_path):
    assert submit(lab, h2, request(tmp_path / "ran")).error == ""
    lab.wait_until(lambda: (tmp_path / "ran").exists(), "it ran")


@pytest.mark.parametrize("job_id", ["h1-17", "5.1", "17", "h2-1-17", "h2"])
def test_a_job_bears_the_name_of_its_origin_alone(lab, h2, tmp_path, job_id):
    """If two jobs had one name, signals for one and its end would reach the other."""
    tag, body = first_answer(lab, h2, request(tmp_path / "ran", job_id=job_id))
    assert tag == job_stream.REFUSED
    assert f"job id {job_id} does not belong to h2" in lbm_pb2.Refused.FromString(body).reason
    assert not (tmp_path / "ran").exists()


def first_answer(lab, h2, message):
    def say():
        yield job_stream.pack(1, job_stream.RUN, message)
        time.sleep(SECONDS)  # the end of the stream would end the job

    with h2.channel(lab, "h1", 7902) as channel:
        answers = channel.stream_stream(RUN)(say(), timeout=SECONDS, metadata=(("lbd-host", "h2"),))
        _, tag, body = job_stream.unpack(next(iter(answers)))[0]
        answers.cancel()
    return tag, bytes(body)


def test_a_number_that_no_store_can_hold_is_refused(lab, h2, tmp_path):
    far = {"is_array": True, "first_index": (1 << 63) - 2, "count": 3}
    assert "array" in submit(lab, h2, request(tmp_path / "ran"), **far).error
    with pytest.raises(grpc.RpcError):  # `count` is not valid
        submit(lab, h2, b"\xff" * (20 << 20))
    assert lab.run("h1", "lbrun", "-q", "echo", "served").stdout == "served\n"
