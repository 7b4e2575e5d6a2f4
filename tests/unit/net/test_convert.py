import contextlib
import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.errors import PeerError
from lbd.lim.core import messages as m
from lbd.model import HostId, JobId, Queues, Verdict
from lbd.net import convert
from lbd.net.gen import lim_pb2 as pb
from lbd.testing.builders import member, sample, vector

H1 = HostId("h1")


def load(slot, index):
    queues = Queues(2 * index, 0.001, 0.0)
    return m.HostLoad(slot, 9, 0.5, index, queues, min(index, 1.0), 1, 0, 1, 3 << 20)


BODIES = [
    m.Hello(member("h1", 3, 7), wants_members=True),
    m.Members((member("h1"), member("h2", 1 << 20)), m.Settings(3, "h2", "LOWEST", {"lim.x": 1.5})),
    m.Members((), m.Settings()),
    m.Report(sample("h1", 9, vector(0.5, slots=(4, 2)), age_s=0.25, drained=True)),
    m.Delta(0, 3, 0xFFFFFFFF, (4, "h1"), ((7, sample("h1", 1)), (0, sample("h2", 2))), gone=(3,)),
    m.Delta(2, 3, 1, (0, ""), loads=(load(7, 0.5), load(1, 1.25)), silent=(7,), fresh_age_s=4.5),
    m.Delta(3, 3, 1, (0, ""), fresh_age_s=0.0),
    m.Ack(known_version=3),
    m.Probe(),
    m.ProbeReply(sample("h1", 1)),
    m.ProbeReply(sample("h1", 1, replace(vector(), site=(("gpu", 0.5), ("users", 3.0))))),
    m.ProbeReply(sample("h1", 1, replace(vector(), owner="here"))),
    m.ProbeReply(sample("h1", 1, replace(vector(), owner="away"))),
    m.AskCentre(JobId("h1-3"), frozenset({HostId("h2")}), True, False, True, sample("h1", 1), 2.5),
    m.AskCentre(
        JobId("h1-4"), frozenset(), False, True, False, sample("h1", 1), 0.0, (JobId("h1-3"),)
    ),
    m.Report(sample("h1", 9), (JobId("h1-1"), JobId("h1-2"))),
    m.Reserve(sample("h1", 2)),
    m.ReserveReply(True, sample("h2", 3)),
    m.Unreserve(),
    m.CentreReply(Verdict.THERE, H1, "centre-lowest"),
    m.CentreReply(Verdict.WAIT, H1, "no-free-slot"),
    m.CentreReply(None, H1, "no-willing-host"),
    m.Settings(1, "h1", "GLOBAL", {}),
    m.Settings(2, "h1", "", {}, {}, {"load.index": "queue-4"}),
    m.Settings(2, "h1", drains={"h2": True, "h3": False}),
    m.Settings(2, "h1", drain_notes={"h2": m.DrainNote("disk sdb", "ann", 1.75e9)}),
    m.Settings(
        2,
        "h1",
        past_drains=(m.PastDrain("h2", m.DrainNote("fan", "ann", 1.75e9), "bob", 1.8e9),),
        saved={"lim.algorithm": "LOWEST", "lim.min_gain": "0.25"},
    ),
    m.ProbeReply(
        sample("h1", 1, replace(vector(), memory_total=8 << 30, memory_available=3 << 20))
    ),
    m.Ack(settings_version=(7, "h2")),
    m.Ack(policy_version=(0, "")),
    m.Ack(policy_version=(7, "h2")),
    m.Settings(8, "h1", "LOWEST", seal=m.Seal(7, "h2", bytes(32), b"certificate", b"signature")),
    m.Delta(3, 3, 1, (4, "h1"), policy_version=(3, "h2")),
    m.Drain(True),
    m.Drain(False),
    m.Leave(),
    m.Leave(for_good=True),
    m.Ping(),
    m.Ack(),
    m.Ack("no", True, 12, 1.75e9, "0.1.0", True),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_message_survives_the_wire(body):
    message = m.Message("lbd", H1, 42, body)
    assert convert.decode(convert.encode(message)) == message


def loads_of(**columns):
    return pb.Delta(loads=pb.Loads(**{"slots": [1], "numbers": [1], "ages_ds": [1], **columns}))


def envelope(**fields) -> bytes:
    return pb.LimMessage(cluster="lbd", sender="h1", **fields).SerializeToString()


def report(**fields) -> bytes:
    good = {"host": "h1", "cores": 1.0, "speed": 1.0}
    return envelope(report=pb.Report(sample=pb.Sample(**{**good, **fields})))


def hello(**fields) -> bytes:
    good = {"name": "h1", "address": "10.0.0.1", "lim_port": 7901, "lbm_port": 7902}
    return envelope(hello=pb.Hello(self=pb.Member(**{**good, **fields})))


def test_valid_messages_are_accepted():
    convert.decode(report())
    convert.decode(hello())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        envelope(),
        pb.LimMessage(sender="", ping=pb.Ping()).SerializeToString(),
        pb.LimMessage(sender="a b", ping=pb.Ping()).SerializeToString(),
        pb.LimMessage(sender="x" * 300, ping=pb.Ping()).SerializeToString(),
        report(index=math.nan),
        report(index=math.inf),
        report(cpu_queue=-1.0),
        report(cores=0.0),
        report(speed=0.0),
        report(age_s=-1.0),
        report(utilisation=7.0),
        report(host="../etc"),
        hello(lim_port=0),
        hello(lbm_port=70000),
        hello(address=""),
        hello(address="unix:/run/x"),
        hello(address="dns:///x"),
        hello(version="x\n"),
        envelope(settings=pb.Settings(params={f"lim.{n}": 1.0 for n in range(101)})),
        envelope(settings=pb.Settings(params={"lim.x": math.nan})),
        envelope(settings=pb.Settings(author="\x1b[31m")),
        envelope(settings=pb.Settings(seal=pb.Seal(counter=1, author="h1", trial=b"x" * 31))),
        envelope(settings=pb.Settings(seal=pb.Seal(counter=1, author="a b", trial=bytes(32)))),
        envelope(settings=pb.Settings(seal=pb.Seal(counter=1 << 62, author="h1", trial=bytes(32)))),
        envelope(
            settings=pb.Settings(
                seal=pb.Seal(counter=1, author="h1", trial=bytes(32), certificate=bytes(8193))
            )
        ),
        envelope(
            settings=pb.Settings(
                seal=pb.Seal(counter=1, author="h1", trial=bytes(32), signature=bytes(81))
            )
        ),
        envelope(delta=pb.Delta(policy_counter=1, policy_mark="\x1b[31m")),
        envelope(ack=pb.Ack(policy_counter=1 << 62)),
        envelope(settings=pb.Settings(drains={"\x1b[31m": True})),
        envelope(settings=pb.Settings(drain_notes={"h2": pb.DrainNote(reason="\x1b[2J")})),
        envelope(settings=pb.Settings(drain_notes={"h2": pb.DrainNote(reason="x" * 161)})),
        envelope(settings=pb.Settings(drain_notes={"h2": pb.DrainNote(by="x" * 65)})),
        envelope(settings=pb.Settings(drain_notes={"h2": pb.DrainNote(since=math.nan)})),
        envelope(settings=pb.Settings(drain_notes={"/": pb.DrainNote()})),
        envelope(settings=pb.Settings(past_drains=[pb.PastDrain(host="/")])),
        envelope(settings=pb.Settings(past_drains=[pb.PastDrain(host="h2", until=math.nan)])),
        envelope(settings=pb.Settings(past_drains=[pb.PastDrain(host="h2", until_by="x" * 65)])),
        envelope(settings=pb.Settings(past_drains=[pb.PastDrain(host="h2")] * 65)),
        envelope(settings=pb.Settings(saved={"lim.index": "x" * 201})),
        envelope(settings=pb.Settings(saved={"lim.index": "\x1b[2J"})),
        envelope(settings=pb.Settings(saved={f"lim.x{n}": "1" for n in range(129)})),
        envelope(settings=pb.Settings(drain_notes={f"h{n}": pb.DrainNote() for n in range(129)})),
        envelope(settings=pb.Settings(drains={f"h{n}": True for n in range(1025)})),
        envelope(settings=pb.Settings(words={"load.index": "\x1b[31m"})),
        report(site={f"gpu{n}": 1.0 for n in range(9)}),
        report(site={"gpu": math.inf}),
        envelope(ack=pb.Ack(error="x" * 5000)),
        envelope(ask_centre=pb.AskCentre(job_id="j", charges=math.inf)),
        envelope(delta=pb.Delta(version=1 << 63)),
        envelope(delta=pb.Delta(gone=[m.SLOTS_MAX])),
        envelope(delta=pb.Delta(silent=[m.SLOTS_MAX])),
        envelope(delta=pb.Delta(whole=[pb.HostLine(slot=1)])),
        envelope(delta=pb.Delta(loads=pb.Loads(slots=[1, 2], numbers=[1], ages_ds=[1]))),
        envelope(delta=loads_of(slots=[m.SLOTS_MAX])),
        envelope(delta=loads_of(numbers=[1 << 63])),
        envelope(delta=loads_of(indices=[1, 2])),
        envelope(delta=loads_of(cpu_queues=[1 << 62])),
        envelope(delta=loads_of(utilisations=[101])),
    ],
)
def test_what_cannot_be_is_refused(data):
    with pytest.raises(PeerError):
        convert.decode(data)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_cause_a_refusal_at_worst(data):
    with contextlib.suppress(PeerError):
        convert.decode(data)


@given(st.integers(0, len(BODIES) - 1), st.data())
def test_a_damaged_message_causes_a_refusal_at_worst(which, draw):
    data = bytearray(convert.encode(m.Message("lbd", H1, 42, BODIES[which])))
    for _ in range(draw.draw(st.integers(1, 4))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError):
        convert.decode(bytes(data))


LATER = b"\xa2\x06\x03new"  # field 100, which no message of ours has


@pytest.mark.parametrize("place", ["members", "samples", "settings"])
def test_fields_of_a_later_release_are_passed_on(place):
    """A centre of this release passes on to the others what it does not understand itself."""
    envelope = pb.LimMessage(cluster="lbd", sender="h1", incarnation=1)
    if place == "members":
        member = {"name": "h2", "address": "127.0.0.2", "lim_port": 1, "lbm_port": 1}
        item = envelope.members.members.add(**member)
    elif place == "samples":
        item = envelope.delta.whole.add().sample
        item.MergeFrom(pb.Sample(host="h2", cores=1.0, speed=1.0))
    else:
        item = envelope.settings
    item.MergeFromString(LATER)
    passed_on = convert.encode(convert.decode(envelope.SerializeToString()))
    assert LATER in passed_on
    item.MergeFromString(b"\xa2\x06\xd0\x0f" + bytes(2000))  # but not without bound
    assert len(convert.encode(convert.decode(envelope.SerializeToString()))) < 200


def test_numbers_leave_room_to_count_further():
    envelope = pb.LimMessage(cluster="lbd", sender="h1", incarnation=1 << 62, ping=pb.Ping())
    with pytest.raises(PeerError, match="incarnation"):
        convert.decode(envelope.SerializeToString())


def members_with(**settings):
    """Returns a list of one host, with settings whose drains are of a host with a clock ahead of
    ours, where somebody has numbered them as high as that host accepts."""
    counter = m.counter_max(time.time() + 3600)
    host = pb.Member(name="h9", address="127.0.0.9", lim_port=1, lbm_port=2)
    wire = pb.Settings(counter=counter, author="h3", drains={"h2": True}, **settings)
    members = pb.Members(members=[host], settings=wire)
    return pb.LimMessage(cluster="lbd", sender="h1", members=members)


def test_of_settings_numbered_too_high_the_signed_part_and_the_hosts_are_accepted():
    seal = {"counter": 7, "author": "h1", "trial": bytes(32)}
    wire = members_with(seal=pb.Seal(**seal), saved={"lim.min_gain": "0.7"}, algorithm="LOWEST")
    body = convert.decode(wire.SerializeToString()).body
    assert isinstance(body, m.Members)
    assert [member.name for member in body.members] == ["h9"]
    assert body.settings == m.Settings(
        algorithm="LOWEST", saved={"lim.min_gain": "0.7"}, seal=m.Seal(**seal)
    )


def test_unsigned_ones_numbered_too_high_are_not_accepted():
    wire = members_with(saved={"lim.min_gain": "0.7"}, algorithm="LOWEST")
    body = convert.decode(wire.SerializeToString()).body
    assert isinstance(body, m.Members)
    assert body.settings == m.Settings()
    wire.members.settings.counter = int(time.time() * 1000)
    body = convert.decode(wire.SerializeToString()).body
    assert body.settings.drains == {"h2": True}


def test_an_owner_state_of_a_later_release_counts_as_not_watched():
    body = convert.decode(report(owner=7)).body
    assert isinstance(body, m.Report)
    assert body.sample.vector.owner == ""


@pytest.mark.parametrize(
    "body",
    [
        {"delta": loads_of(slots=[1] * 4, numbers=[1] * 4, ages_ds=[0] * 4)},
        {"delta": pb.Delta(silent=[1] * 4)},
        {"delta": pb.Delta(gone=[1] * 4)},
        {"delta": pb.Delta(whole=[pb.HostLine()] * 4)},
        {"members": pb.Members(members=[pb.Member()] * 4)},
        {"ask_centre": pb.AskCentre(excluded=["h1"] * 4)},
    ],
    ids=str,
)
def test_nothing_is_read_of_more_hosts_than_there_can_be(body):
    """A MiB could hold 340,000, which took a LIM 1.7 s to read."""
    with pytest.raises(PeerError, match="more than 3 hosts"):
        convert.decode(envelope(**body), 3)


@pytest.mark.parametrize(
    "address",
    [
        "fe80::1%" + "a" * (1 << 20), "fe80::1%\33[2J", "fe80::1%eth0]:1", "fe80::1%", "10.0.0.1%a",
        "a" * 254, "unix:/run/x", "::1%a%b", "",
    ],
)  # fmt: skip
def test_what_is_no_address(address):
    """Python accepts anything behind the % of an IPv6 address: a megabyte of it was in the table of
    every host, and a list of hosts no longer fitted into a message."""
    with pytest.raises(PeerError, match="is not an address"):
        convert.address(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "fe80::1%eth0", "::1", "h1.example", "h1.lbd"])
def test_addresses(address):
    assert convert.address(address) == address


def test_of_too_many_hosts_the_first_go_into_a_message():
    """Made up with everything a host may say of itself, they kept a new host from getting any."""
    later = b"\x9a\x06\xe8\x07" + bytes(1000)  # a field that is unknown here
    ghosts = [
        replace(member(f"ghost{n}"), version="\U0001f47b" * 255, more=later) for n in range(1000)
    ]
    real = tuple(member(f"h{n}") for n in range(20))
    told = m.Message("lab", H1, 1, m.Members((*real, *ghosts), m.Settings(3, "h2")))
    assert len(convert.encode(told)) > 1 << 20
    packed = convert.encode_within(told, 1 << 20)
    assert len(packed) <= 1 << 20
    body = convert.decode(packed).body
    assert body.members[:20] == real
    assert body.settings == told.body.settings
    assert convert.encode_within(told, 10_000_000) == convert.encode(told)
