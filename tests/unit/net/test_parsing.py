"""The fields of others' messages are counted before the messages are parsed."""

import re
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from google.protobuf.message import DecodeError

import lbd
from lbd.local import steps
from lbd.net import parsing
from lbd.net.gen import dispatch_pb2, lbm_pb2, lim_pb2
from lbd.net.parsing import (
    ANSWER_FIELDS_MAX,
    FIELDS_MAX,
    MESSAGES_MAX,
    STEP_FIELDS,
    TooManyFields,
    check,
    kind_of,
    parsed,
    parsed_answer,
    parsed_in_turns,
)
from tests.unit.turns import others_turns

MANY = 8 << 20
LISTED = lbm_pb2.RunRequest, dispatch_pb2.WorkUp, dispatch_pb2.JobsInfo, lim_pb2.LimMessage
# These parse what this host has written, or what was checked when it arrived.
OF_OUR_OWN = {
    "dispatch/job_view.py", "dispatch/stored_start.py", "dispatch/updates.py",
    "lbm/handover/adoption.py", "lbm/handover/saving.py", "lbm/inbound/attached_job.py",
    "lbm/outbound/remote_run.py", "lbm/outbound/request.py", "lbm/queue/dispatcher_line.py",
    "lbm/queue/notifications.py", "net/convert.py", "net/parsing.py",
}  # fmt: skip


def field(number, body, wire=2):
    """Returns an encoded field of a few bytes."""
    tag = number << 3 | wire
    head = bytes((tag,)) if tag < 128 else bytes((tag & 127 | 128, tag >> 7))
    return head + (bytes((len(body),)) + body if wire == 2 else body)


@pytest.mark.parametrize(
    ("kind", "one"),
    [
        (lbm_pb2.RunRequest, field(9, b"")),  # limits
        (lbm_pb2.RunRequest, field(9, b"\x08\x01")),
        (lbm_pb2.RunRequest, field(5, b"")),  # argv: sixteen bytes of memory for two
        (lbm_pb2.RunRequest, b"\xca\x80\x80\x00\x00"),  # limits again, in another encoding
        (dispatch_pb2.WorkUp, field(2, b"")),
        (dispatch_pb2.JobsInfo, field(2, field(21, b""))),
        (lim_pb2.LimMessage, field(13, field(1, b""))),
    ],
)
def test_millions_of_empty_fields_are_not_read(kind, one):
    with pytest.raises(DecodeError, match="more than"):
        parsed(kind, one * (MANY // len(one)))


def test_a_kind_is_known_once_it_is_complete(monkeypatch):
    """A thread that meanwhile read another message of the type took it for one without lists."""
    known, seen = {}, []
    monkeypatch.setattr(parsing, "KINDS", known)

    def looked_at(descriptor):
        for field in descriptor.fields:
            seen.append(dict(known))
            yield field

    real = lbm_pb2.StatsReply.DESCRIPTOR
    kind = kind_of(SimpleNamespace(full_name="outer", fields=looked_at(real)))
    assert seen
    assert all("outer" not in one for one in seen)
    assert known["outer"] is kind
    assert kind == kind_of(real)


def test_nor_are_those_inside_of_one():
    for inside in (field(6, b"") * 200_000, bytes(4 << 20)):
        size = len(inside)
        length = bytes(((size >> shift) & 127) | 128 for shift in (0, 7, 14)) + bytes((size >> 21,))
        with pytest.raises(DecodeError):
            parsed(dispatch_pb2.WorkUp, b"\x0a" + length + inside)  # heartbeat.held


def test_numbers_in_a_list_count_in_any_encoding():
    delta = lim_pb2.Delta(gone=[1] * 100)
    delta.loads.slots.extend([300] * 100)
    message = lim_pb2.LimMessage(delta=delta).SerializeToString()
    kind = kind_of(lim_pb2.LimMessage.DESCRIPTOR)
    check(message, kind, 204, 2)
    with pytest.raises(DecodeError):
        check(message, kind, 203, 2)


def test_messages_of_honest_hosts_are_read():
    held = [dispatch_pb2.Held(job=str(number), attempt=1) for number in range(20_000)]
    up = dispatch_pb2.WorkUp(heartbeat=dispatch_pb2.Heartbeat(held=held))
    assert parsed(dispatch_pb2.WorkUp, up.SerializeToString()) == up
    words = [b"word"] * (1 << 19)
    request = lbm_pb2.RunRequest(argv=words, directory=b"/")
    assert parsed(lbm_pb2.RunRequest, request.SerializeToString()) == request
    jobs = [dispatch_pb2.JobInfo(id=number, command=[b"a"]) for number in range(100_000)]
    info = dispatch_pb2.JobsInfo(jobs=jobs)
    assert parsed_answer(dispatch_pb2.JobsInfo, info.SerializeToString()) == info


async def test_others_are_served_while_a_long_answer_is_read(monkeypatch):
    """One of twelve megabytes took four seconds."""
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    jobs = [dispatch_pb2.JobInfo(id=number, command=[b""] * 1000) for number in range(100)]
    info = dispatch_pb2.JobsInfo(jobs=jobs)
    with others_turns() as turns:
        assert await parsed_in_turns(dispatch_pb2.JobsInfo, info.SerializeToString()) == info
        assert turns() >= 100_000 // STEP_FIELDS


async def test_an_answer_has_no_more_fields_than_protobuf_parses_in_a_moment():
    """What follows is not looked at."""
    job = dispatch_pb2.JobInfo(command=[b""] * 1000)
    data = dispatch_pb2.JobsInfo(jobs=[job] * (ANSWER_FIELDS_MAX // 1000)).SerializeToString()
    with pytest.raises(TooManyFields):
        await parsed_in_turns(dispatch_pb2.JobsInfo, data + b"cut short")
    with pytest.raises(TooManyFields):
        parsed_answer(dispatch_pb2.JobsInfo, data)


@pytest.mark.parametrize("kind", LISTED)
@pytest.mark.parametrize("seed", range(50))
def test_bytes_that_pass_the_count_are_parsed_or_refused_by_protobuf(kind, seed):
    """Whatever the bytes are, no other kind of error occurs."""
    rng = Random(seed)
    data = bytes(rng.choice((0, 1, 2, 8, 10, 18, 26, 34, 74, 128, 250, 255)) for _ in range(300))
    try:
        check(data, kind_of(kind.DESCRIPTOR), FIELDS_MAX, MESSAGES_MAX)
        kind.FromString(data)
    except DecodeError:
        pass


@pytest.mark.parametrize("data", [b"\x4a", b"\x4a\x05ab", b"\x0b", b"\x08", b"\x08\xff", b"\x0d1"])
def test_a_truncated_message_is_refused(data):
    with pytest.raises(DecodeError):
        check(data, kind_of(lbm_pb2.RunRequest.DESCRIPTOR), FIELDS_MAX, MESSAGES_MAX)


def test_nothing_else_reads_messages():
    root = Path(lbd.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if "gen" not in path.parts and re.search(r"FromString\b(?!AndSize)", path.read_text())
    }
    assert found <= OF_OUR_OWN
