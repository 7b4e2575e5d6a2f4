"""Converts between protobuf and lbd's own values, once, at the edge.

Nothing from another host is trusted: names, numbers and counts are checked here, and a PeerError
says in one line what was wrong. Beyond this file every message is well formed. One file because it
is one list: what goes out and what comes in, message by message.
"""

import ipaddress
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from lbd.errors import PeerError
from lbd.lim.core import messages as m
from lbd.model import NO_FACTS, Closed, Facts, HostId, JobId, LoadVector, Needs, Queues, Verdict
from lbd.net.gen import lim_pb2 as pb
from lbd.net.parsing import parsed
from lbd.text.host_name import is_address_name, is_host_name
from lbd.text.needs_words import needs_text, read_facts, read_needs_text, resources_text
from lbd.text.one_line import one_line

NAME_CHARS_MAX = 255
ENDED_MAX = 10_000  # jobs in one message
TEXT_CHARS_MAX = 4096
PARAMS_MAX = 100
SITE_LOADS_MAX = 8
MIB_BITS = 20
DECI, CENTI, MILLI = 10, 100, 1000
LOAD_MAX = 1e9  # tasks
OWNERS_OUT = {"away": 1, "here": 2}
OWNERS_IN = {number: owner for owner, number in OWNERS_OUT.items()}
SETTINGS_HOSTS = 1 << 11  # the settings take as much as this many hosts
MORE_BYTES_MAX = 1 << 10  # of unknown fields
SCOPE = re.compile(r"[A-Za-z0-9_.-]{1,15}")  # scope of an IPv6 address: the name of an interface

Relayed = pb.Member | pb.Sample | pb.Settings  # messages passed on to third hosts
Versioned = pb.Delta | pb.Ack
VERDICTS = {
    Verdict.HERE: pb.CentreReply.HERE,
    Verdict.THERE: pb.CentreReply.THERE,
    Verdict.WAIT: pb.CentreReply.WAIT,
}
FROM_VERDICTS = {number: verdict for verdict, number in VERDICTS.items()}


def encode(message: m.Message) -> bytes:
    envelope = pb.LimMessage(
        cluster=message.cluster, sender=message.sender, incarnation=message.incarnation
    )
    fill(envelope, message.body)
    return envelope.SerializeToString()


def encode_within(message: m.Message, limit_bytes: int) -> bytes:
    """Encodes a message. If a list of hosts is too long for one, only the first ones are sent: some
    may be made up, with all that a host may say about itself, to keep a joining host from getting
    any."""
    packed = encode(message)
    while (
        len(packed) > limit_bytes and isinstance(body := message.body, m.Members) and body.members
    ):
        some = m.Members(body.members[: len(body.members) // 2], body.settings)
        message = m.Message(message.cluster, message.sender, message.incarnation, some)
        packed = encode(message)
    return packed


def decode(data: bytes, hosts_max: int = m.SLOTS_MAX, kinds: Collection[str] = ()) -> m.Message:
    """Raises PeerError unless it is a valid message in every part, with at most `hosts_max` hosts
    and, if `kinds` are given, of one of those: a message of another kind is not read further."""
    try:
        envelope = parsed(pb.LimMessage, data, *most_in(hosts_max))
    except DecodeError as problem:
        raise PeerError(f"not a LIM message: {problem}") from problem
    kind = envelope.WhichOneof("body")
    if kind is None:
        raise PeerError("a LIM message of a kind unknown here (a newer version?)")
    if kinds and kind not in kinds:
        raise PeerError(f"{kind} is no answer to what was asked")
    if hosts_in(envelope, kind) > hosts_max:
        raise PeerError(f"a LIM message with more than {hosts_max} hosts")
    return m.Message(
        cluster=text(envelope.cluster, "cluster"),
        sender=name(envelope.sender),
        incarnation=count(envelope.incarnation, "incarnation"),
        body=READERS[kind](envelope),
    )


def most_in(hosts_max: int) -> tuple[int, int]:
    """Returns the most fields and messages: those of each host, including its site's loads, and the
    settings."""
    return 64 * (hosts_max + SETTINGS_HOSTS), 16 * (hosts_max + SETTINGS_HOSTS)


def hosts_in(envelope: pb.LimMessage, kind: str) -> int:
    """Returns the number of hosts in a message; each costs far more to read than its few bytes to
    send."""
    match kind:
        case "delta":
            found = envelope.delta
            columns = found.whole, found.loads.slots, found.silent, found.gone
            return max(map(len, columns))
        case "members":
            return len(envelope.members.members)
        case "ask_centre":
            return len(envelope.ask_centre.excluded)
    return 0


def fill(envelope: pb.LimMessage, body: m.Body) -> None:
    match body:
        case m.Hello():
            envelope.hello.self.CopyFrom(member_out(body.self))
            envelope.hello.wants_members = body.wants_members
        case m.Members():
            envelope.members.members.extend(map(member_out, body.members))
            envelope.members.settings.CopyFrom(settings_out(body.settings))
        case m.Report():
            envelope.report.sample.CopyFrom(sample_out(body.sample))
            envelope.report.ended.extend(body.ended)
        case m.Delta():
            envelope.delta.CopyFrom(delta_out(body))
        case m.Probe():
            envelope.probe.SetInParent()
        case m.ProbeReply():
            envelope.probe_reply.sample.CopyFrom(sample_out(body.sample))
        case m.AskCentre():
            envelope.ask_centre.CopyFrom(ask_out(body))
        case m.CentreReply():
            verdict = VERDICTS[body.verdict] if body.verdict else pb.CentreReply.NOWHERE
            envelope.centre_reply.CopyFrom(
                pb.CentreReply(verdict=verdict, host=body.host, reason=body.reason)
            )
        case m.Settings():
            envelope.settings.CopyFrom(settings_out(body))
        case m.Drain():
            envelope.drain.CopyFrom(pb.Drain(drained=body.drained))
        case m.Leave():
            envelope.leave.CopyFrom(pb.Leave(for_good=body.for_good))
        case m.Forget():
            envelope.forget.host = body.host
        case m.Ping():
            envelope.ping.SetInParent()
        case m.Reserve():
            envelope.reserve.sample.CopyFrom(sample_out(body.sample))
        case m.ReserveReply():
            envelope.reserve_reply.taken = body.taken
            envelope.reserve_reply.sample.CopyFrom(sample_out(body.sample))
        case m.Unreserve():
            envelope.unreserve.SetInParent()
        case m.Ack():
            envelope.ack.CopyFrom(ack_out(body))


def member_out(member: m.Member) -> pb.Member:
    wire = pb.Member(
        name=member.name,
        address=member.address,
        lim_port=member.lim_port,
        lbm_port=member.lbm_port,
        rank=member.rank,
        incarnation=member.incarnation,
        version=member.version,
    )
    wire.MergeFromString(member.more)
    return wire


def sample_out(sample: m.Sample) -> pb.Sample:
    vector = sample.vector
    wire = pb.Sample(
        host=sample.host,
        incarnation=sample.incarnation,
        number=sample.number,
        age_s=sample.age_s,
        index=vector.index,
        cpu_queue=vector.queues.cpu,
        io_queue=vector.queues.io,
        memory_queue=vector.queues.memory,
        utilisation=vector.utilisation,
        cores=vector.cores,
        speed=vector.speed,
        slots_total=vector.slots_total,
        slots_used=vector.slots_used,
        jobs_local=vector.jobs_local,
        jobs_foreign=vector.jobs_foreign,
        accepting=vector.accepting,
        hog=vector.hog,
        site=dict(vector.site),
        owner=OWNERS_OUT.get(vector.owner, 0),
        memory_total_mib=vector.memory_total >> MIB_BITS,
        memory_available_mib=vector.memory_available >> MIB_BITS,
        features=" ".join(vector.facts.features),
        resources=resources_text(vector.facts),
        memory_for_jobs_mib=vector.facts.memory_total >> MIB_BITS,
        memory_given_mib=vector.facts.memory_given >> MIB_BITS,
        drained=sample.drained,
        closed=vector.closed,
        opens=vector.opens,
    )
    wire.MergeFromString(sample.more)
    return wire


def delta_out(delta: m.Delta) -> pb.Delta:
    loads, counter_and_author = delta.loads, delta.settings_version
    policy_counter, policy_mark = delta.policy_version
    wire = pb.Delta(
        since=delta.since,
        version=delta.version,
        digest=delta.digest,
        whole=[pb.HostLine(slot=slot, sample=sample_out(found)) for slot, found in delta.whole],
        silent=delta.silent,
        gone=delta.gone,
        settings_counter=counter_and_author[0],
        settings_author=counter_and_author[1],
        policy_counter=policy_counter,
        policy_mark=policy_mark,
    )
    if delta.fresh_age_s is not None:  # rounded up, never younger than it is
        wire.fresh_age_ds = 1 + math.ceil(delta.fresh_age_s * DECI)
    if loads:
        wire.loads.CopyFrom(loads_out(loads))
    return wire


def loads_out(loads: Sequence[m.HostLoad]) -> pb.Loads:
    return pb.Loads(
        slots=[load.slot for load in loads],
        numbers=[load.number for load in loads],
        ages_ds=[round(load.age_s * DECI) for load in loads],
        indices=column(load.index for load in loads),
        cpu_queues=column(load.queues.cpu for load in loads),
        io_queues=column(load.queues.io for load in loads),
        memory_queues=column(load.queues.memory for load in loads),
        utilisations=full([round(load.utilisation * CENTI) for load in loads]),
        slots_used=full([load.slots_used for load in loads]),
        jobs_local=full([load.jobs_local for load in loads]),
        jobs_foreign=full([load.jobs_foreign for load in loads]),
        memory_available_mib=full([load.memory_available >> MIB_BITS for load in loads]),
    )


def column(values: Iterable[float]) -> list[int]:
    return full([round(value * MILLI) for value in values])


def full(values: list[int]) -> list[int]:
    """Returns the column, or [] if it is all zeros, since such a column is omitted."""
    return values if any(values) else []


def ask_out(ask: m.AskCentre) -> pb.AskCentre:
    return pb.AskCentre(
        job_id=ask.job,
        excluded=sorted(ask.excluded),
        must_leave=ask.must_leave,
        may_wait=ask.may_wait,
        dry=ask.dry,
        sample=sample_out(ask.sample),
        charges=ask.charges,
        ended=ask.ended,
        needs=needs_text(ask.needs),
    )


def settings_out(settings: m.Settings) -> pb.Settings:
    wire = pb.Settings(
        counter=settings.counter,
        author=settings.author,
        algorithm=settings.algorithm,
        params=settings.params,
        tuned=settings.tuned,
        words=settings.words,
        drains={str(host): drained for host, drained in settings.drains.items()},
        saved=settings.saved,
    )
    for host, note in settings.drain_notes.items():
        wire.drain_notes[str(host)].CopyFrom(drain_note_out(note))
    for past in settings.past_drains:
        wire.past_drains.add(
            host=past.host, note=drain_note_out(past.note), until_by=past.until_by, until=past.until
        )
    if (seal := settings.seal).counter:
        wire.seal.CopyFrom(
            pb.Seal(
                counter=seal.counter, author=seal.author, trial=seal.trial,
                certificate=seal.certificate, signature=seal.signature,
            )
        )  # fmt: skip
    wire.MergeFromString(settings.more)
    return wire


def drain_note_out(note: m.DrainNote) -> pb.DrainNote:
    return pb.DrainNote(reason=note.reason, by=note.by, since=note.since)


def ack_out(ack: m.Ack) -> pb.Ack:
    counter, mark = ack.policy_version
    return pb.Ack(
        error=ack.error,
        unknown_sender=ack.unknown_sender,
        known_incarnation=ack.known_incarnation,
        unix_time_s=ack.unix_time_s,
        version=ack.version,
        name_taken=ack.name_taken,
        algorithm=ack.algorithm,
        settings_counter=ack.settings_version[0],
        settings_author=ack.settings_version[1],
        known_version=ack.known_version,
        policy_counter=counter,
        policy_mark=mark,
    )


def text(value: str, what: str, limit: int = NAME_CHARS_MAX) -> str:
    if len(value) > limit or not value.isprintable():
        raise PeerError(f"{what} is too long or not printable")
    return value


def name(value: str) -> HostId:
    if not is_host_name(value):
        raise PeerError(f"{value[:40]!r} is not a host name")
    return HostId(value)


def address(value: str) -> str:
    """Checks an IP address or host name; rejects anything that gRPC could take for another kind of
    target."""
    plain, mark, scope = value.partition("%")  # for IPv6, where Python accepts anything as scope
    if is_address_name(value):
        return value
    try:
        if mark and not (":" in plain and SCOPE.fullmatch(scope)):
            raise ValueError
        return str(ipaddress.ip_address(plain)) + mark + scope
    except ValueError:
        raise PeerError(f"{value[:40]!r} is not an address") from None


def number(value: float, what: str, low: float = 0.0, high: float = 1e9) -> float:
    if not (math.isfinite(value) and low <= value <= high):
        raise PeerError(f"{what} is {value}, which cannot be")
    return value


def later_fields(wire: Relayed) -> bytes:
    """Returns the fields unknown to this release, unchanged, since other hosts may know them."""
    if not len(UnknownFieldSet(wire)):
        return b""
    rest = type(wire).FromString(wire.SerializeToString())
    for known, _ in wire.ListFields():
        rest.ClearField(known.name)
    more = rest.SerializeToString()
    return more if len(more) <= MORE_BYTES_MAX else b""


def count(value: int, what: str) -> int:
    """Checks a number that is incremented from here on. Raises PeerError."""
    if value > m.COUNTER_MAX:
        raise PeerError(f"{what} is {value}, which cannot be")
    return value


def member(wire: pb.Member) -> m.Member:
    if not (0 < wire.lim_port < 65536 and 0 < wire.lbm_port < 65536):
        raise PeerError(f"{wire.name[:40]!r} has a port out of range")
    return m.Member(
        name=name(wire.name),
        address=address(wire.address),
        lim_port=wire.lim_port,
        lbm_port=wire.lbm_port,
        rank=wire.rank,
        incarnation=count(wire.incarnation, "incarnation"),
        version=text(wire.version, "version"),
        more=later_fields(wire),
    )


def sample(wire: pb.Sample) -> m.Sample:
    queues = Queues(
        cpu=number(wire.cpu_queue, "cpu_queue"),
        io=number(wire.io_queue, "io_queue"),
        memory=number(wire.memory_queue, "memory_queue"),
    )
    vector = LoadVector(
        index=number(wire.index, "index"),
        queues=queues,
        utilisation=number(wire.utilisation, "utilisation", high=1.001),
        cores=number(wire.cores, "cores", low=1e-3, high=1e6),
        speed=number(wire.speed, "speed", low=1e-3, high=1e6),
        slots_total=wire.slots_total,
        slots_used=wire.slots_used,
        jobs_local=wire.jobs_local,
        jobs_foreign=wire.jobs_foreign,
        accepting=wire.accepting,
        hog=wire.hog[:NAME_CHARS_MAX],
        site=site_loads(wire.site) if wire.site else (),
        owner=OWNERS_IN.get(wire.owner, ""),
        memory_total=wire.memory_total_mib << MIB_BITS,
        memory_available=wire.memory_available_mib << MIB_BITS,
        facts=facts(wire),
        closed=Closed.numbered(wire.closed),
        opens=one_line(wire.opens, m.OPENS_CHARS_MAX) if wire.opens else "",
    )
    return m.Sample(
        host=name(wire.host),
        incarnation=count(wire.incarnation, "incarnation"),
        number=count(wire.number, "number"),
        age_s=number(wire.age_s, "age_s"),
        vector=vector,
        drained=wire.drained,
        more=later_fields(wire),
    )


def delta(wire: pb.Delta) -> m.Delta:
    return m.Delta(
        since=count(wire.since, "since"),
        version=count(wire.version, "version"),
        digest=wire.digest,
        settings_version=settings_version(wire),
        policy_version=policy_version(wire),
        whole=tuple((slot(line.slot), sample(line.sample)) for line in wire.whole),
        loads=loads(wire.loads) if wire.HasField("loads") else (),
        silent=tuple(map(slot, wire.silent)),
        gone=tuple(map(slot, wire.gone)),
        fresh_age_s=(wire.fresh_age_ds - 1) / DECI if wire.fresh_age_ds else None,
    )


def settings_version(wire: Versioned) -> tuple[int, str]:
    counter = count(wire.settings_counter, "settings_counter")
    return counter, text(wire.settings_author, "settings_author")


def policy_version(wire: Versioned) -> tuple[int, str]:
    counter = count(wire.policy_counter, "policy_counter")
    return counter, text(wire.policy_mark, "policy_mark")


def slot(value: int) -> int:
    if value >= m.SLOTS_MAX:
        raise PeerError(f"a slot is {value}, which cannot be")
    return value


def loads(wire: pb.Loads) -> tuple[m.HostLoad, ...]:
    """Builds rows from the columns; an omitted column has zeros."""
    rows = len(wire.slots)
    if not len(wire.numbers) == len(wire.ages_ds) == rows:
        raise PeerError("columns of loads of different lengths")
    thousandths = (
        read_column(wire.indices, rows), read_column(wire.cpu_queues, rows),
        read_column(wire.io_queues, rows), read_column(wire.memory_queues, rows),
    )  # fmt: skip
    counts = (
        read_column(wire.utilisations, rows), read_column(wire.slots_used, rows),
        read_column(wire.jobs_local, rows), read_column(wire.jobs_foreign, rows),
        read_column(wire.memory_available_mib, rows),
    )  # fmt: skip
    if rows and max(map(max, thousandths)) > LOAD_MAX * MILLI:
        raise PeerError("a load that cannot be")
    return tuple(map(load, wire.slots, wire.numbers, wire.ages_ds, *thousandths, *counts))


def read_column(values: Sequence[int], rows: int) -> Sequence[int]:
    if len(values) not in (0, rows):
        raise PeerError("columns of loads of different lengths")
    return values or [0] * rows


def load(
    place: int, sampled: int, age_ds: int, index: int, cpu: int, io: int, memory: int,
    utilisation: int, used: int, local: int, foreign: int, available_mib: int,
) -> m.HostLoad:  # fmt: skip
    return m.HostLoad(
        slot(place), count(sampled, "number"), age_ds / DECI, index / MILLI,
        Queues(cpu / MILLI, io / MILLI, memory / MILLI),
        number(utilisation / CENTI, "utilisation", high=1.0), used, local, foreign,
        available_mib << MIB_BITS,
    )  # fmt: skip


def facts(wire: pb.Sample) -> Facts:
    if not (wire.features or wire.resources or wire.memory_for_jobs_mib):
        return NO_FACTS  # its LBM has not reported any
    memory = wire.memory_for_jobs_mib << MIB_BITS, wire.memory_given_mib << MIB_BITS
    try:
        return read_facts(wire.features, wire.resources, *memory)
    except ValueError:
        raise PeerError("features or resources that cannot be") from None


def needs(wire: str) -> Needs:
    try:
        return read_needs_text(wire)
    except ValueError:
        raise PeerError("needs that cannot be") from None


def site_loads(wire: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    if len(wire) > SITE_LOADS_MAX:
        raise PeerError("too many loads of the site's own")
    return tuple(sorted((text(k, "load"), number(v, "load")) for k, v in wire.items()))


def settings(wire: pb.Settings) -> m.Settings:
    """If the counter is too high, only what does not go by it is read: a signed policy. The host
    that passes the settings on may have a clock ahead of ours."""
    if wire.counter > m.counter_max(time.time()):
        wire = policy_only(wire) if wire.seal.counter else pb.Settings()
    if max(len(wire.params), len(wire.tuned), len(wire.words)) > PARAMS_MAX:
        raise PeerError("too many parameters")
    if len(wire.drains) > m.DRAINS_MAX or len(wire.drain_notes) > m.DRAIN_NOTES_MAX:
        raise PeerError("too many drained hosts")
    if len(wire.past_drains) > m.PAST_DRAINS_MAX or len(wire.saved) > m.SAVED_MAX:
        raise PeerError("too many past drains, or saved settings")
    return m.Settings(
        counter=wire.counter,
        author=text(wire.author, "author"),
        algorithm=text(wire.algorithm, "algorithm"),
        params=parameters(wire.params),
        tuned=parameters(wire.tuned),
        words={text(k, "parameter"): text(v, k) for k, v in wire.words.items()},
        more=later_fields(wire),
        drains={name(host): drained for host, drained in wire.drains.items()},
        drain_notes={name(host): drain_note(note) for host, note in wire.drain_notes.items()},
        past_drains=tuple(map(past_drain, wire.past_drains)),
        saved={
            text(k, "a saved setting"): text(v, k, m.SAVED_CHARS_MAX) for k, v in wire.saved.items()
        },
        seal=seal(wire.seal) if wire.seal.counter else m.NO_SEAL,
    )


def policy_only(wire: pb.Settings) -> pb.Settings:
    return pb.Settings(
        algorithm=wire.algorithm, params=wire.params, words=wire.words, saved=wire.saved,
        seal=wire.seal,
    )  # fmt: skip


def seal(wire: pb.Seal) -> m.Seal:
    if (
        len(wire.trial) != m.TRIAL_BYTES
        or len(wire.certificate) > m.CERTIFICATE_BYTES_MAX
        or len(wire.signature) > m.SIGNATURE_BYTES_MAX
    ):
        raise PeerError("a seal of settings that cannot be")
    return m.Seal(
        count(wire.counter, "counter of a seal"), name(wire.author), wire.trial, wire.certificate,
        wire.signature,
    )  # fmt: skip


def drain_note(wire: pb.DrainNote) -> m.DrainNote:
    return m.DrainNote(
        reason=text(wire.reason, "reason of a drain", m.REASON_CHARS_MAX),
        by=text(wire.by, "who drained a host", m.BY_CHARS_MAX),
        since=number(wire.since, "since", high=1e12),
    )


def past_drain(wire: pb.PastDrain) -> m.PastDrain:
    return m.PastDrain(
        host=name(wire.host),
        note=drain_note(wire.note),
        until_by=text(wire.until_by, "who ended a drain", m.BY_CHARS_MAX),
        until=number(wire.until, "until", high=1e12),
    )


def parameters(wire: Mapping[str, float]) -> dict[str, float]:
    return {text(k, "parameter"): number(v, k, low=-1e12, high=1e12) for k, v in wire.items()}


def jobs(wire: Sequence[str]) -> tuple[JobId, ...]:
    if len(wire) > ENDED_MAX:
        raise PeerError("too many jobs")
    return tuple(JobId(text(job, "job_id")) for job in wire)


def ask_centre(wire: pb.AskCentre) -> m.AskCentre:
    return m.AskCentre(
        job=JobId(text(wire.job_id, "job_id")),
        excluded=frozenset(map(name, wire.excluded)),
        must_leave=wire.must_leave,
        may_wait=wire.may_wait,
        dry=wire.dry,
        sample=sample(wire.sample),
        charges=number(wire.charges, "charges"),
        ended=jobs(wire.ended),
        needs=needs(wire.needs),
    )


def centre_reply(wire: pb.CentreReply) -> m.CentreReply:
    return m.CentreReply(
        verdict=FROM_VERDICTS.get(wire.verdict),
        host=name(wire.host),
        reason=text(wire.reason, "reason", TEXT_CHARS_MAX),
    )


def ack(wire: pb.Ack) -> m.Ack:
    return m.Ack(
        error=text(wire.error, "error", TEXT_CHARS_MAX),
        unknown_sender=wire.unknown_sender,
        known_incarnation=count(wire.known_incarnation, "known_incarnation"),
        unix_time_s=number(wire.unix_time_s, "unix_time_s", high=1e12),
        version=text(wire.version, "version"),
        name_taken=wire.name_taken,
        algorithm=text(wire.algorithm, "algorithm"),
        settings_version=settings_version(wire),
        known_version=count(wire.known_version, "known_version"),
        policy_version=policy_version(wire),
    )


READERS: dict[str, Callable[[pb.LimMessage], m.Body]] = {
    "hello": lambda e: m.Hello(member(e.hello.self), e.hello.wants_members),
    "members": lambda e: m.Members(
        tuple(map(member, e.members.members)), settings(e.members.settings)
    ),
    "report": lambda e: m.Report(sample(e.report.sample), jobs(e.report.ended)),
    "delta": lambda e: delta(e.delta),
    "probe": lambda _: m.Probe(),
    "probe_reply": lambda e: m.ProbeReply(sample(e.probe_reply.sample)),
    "ask_centre": lambda e: ask_centre(e.ask_centre),
    "centre_reply": lambda e: centre_reply(e.centre_reply),
    "settings": lambda e: settings(e.settings),
    "reserve": lambda e: m.Reserve(sample(e.reserve.sample)),
    "reserve_reply": lambda e: m.ReserveReply(
        e.reserve_reply.taken, sample(e.reserve_reply.sample)
    ),
    "unreserve": lambda _: m.Unreserve(),
    "drain": lambda e: m.Drain(e.drain.drained),
    "leave": lambda e: m.Leave(e.leave.for_good),
    "forget": lambda e: m.Forget(name(e.forget.host)),
    "ping": lambda _: m.Ping(),
    "ack": lambda e: ack(e.ack),
}
