"""Every parser of ours that takes bytes from outside, as a function of bytes.

Each target returns, or raises an exception that it may raise (`PROMISED`); anything else is a bug.
Where possible, it also checks that the parser read what was meant. `fuzz.py` drives the targets
with coverage; `test_corpus.py` runs them in the ordinary tests, on the corpus and random inputs.
"""

import contextlib
import io
import json
import os
import shlex
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from lbd.config.load import Given, parse, settle
from lbd.config.schema import Config
from lbd.dispatch.core import job_selection as selectors
from lbd.errors import ConfigError, PeerError
from lbd.keeper.spawn_order import read_order
from lbd.keeper.user_and_start_steps import WORDS, Refused, Surroundings, compile_order, texts
from lbd.launch import terminal_modes as modes
from lbd.launch.directory_stamp import is_same, read_stamp
from lbd.lbm.core.environment import DenyList, outgoing
from lbd.lbm.core.learnt_commands import Book
from lbd.lbm.inbound import request as run_request
from lbd.lbm.inbound.request import make_order
from lbd.lbm.link import wire as job_stream
from lbd.lbm.session import request
from lbd.lim import socket_values as requests
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core import settings
from lbd.local import frames
from lbd.local import json_socket as local
from lbd.local.field_reader import by_key
from lbd.net import convert
from lbd.net import release as wire
from lbd.pack.pack import Allowance, BadPack, Unpacker
from lbd.policy.eligibility import Lists
from lbd.policy.invocation import key_of, why_stays
from lbd.sim.balance import trace as balance_trace
from lbd.sim.queueing import trace
from lbd.testing.builders import lim_state, member
from lbd.text import units, windows
from lbd.text.host_name import is_host_name
from lbd.text.one_line import one_line
from lbd.trust import certificates as made
from lbd.trust import der, evidence, names, revocations, token
from tests.fuzz import handover_targets, metrics_targets, python_targets, queue_targets, web_targets

TARGETS: dict[str, Callable[[bytes], None]] = {}
LIMIT_BYTES = 1 << 16
AUTHORITY = made.new_authority("fuzz", 0.0).chain


def target(function: Callable[[bytes], None]) -> Callable[[bytes], None]:
    TARGETS[function.__name__] = function
    return function


for module in (handover_targets, metrics_targets, python_targets, queue_targets, web_targets):
    TARGETS.update({one.__name__: one for one in module.ALL})


def words(data: bytes) -> list[bytes]:
    return data.split(b"\0")


@target
def frames_and_fields(data: bytes) -> None:
    """However the bytes are split, the same frames come out."""
    whole, cut = frames.Splitter(LIMIT_BYTES), frames.Splitter(LIMIT_BYTES)
    with contextlib.suppress(ValueError):
        found = whole.feed(data)
        step = 1 + len(data) % 7
        parts = [cut.feed(data[at : at + step]) for at in range(0, len(data), step)]
        assert [frame for part in parts for frame in part] == found
        for _, body in found:
            with contextlib.suppress(ValueError):
                pairs = frames.fields(body)
                assert b"".join(frames.field(*pair) for pair in pairs) == body
                gathered = by_key(body)
                assert [(key, value) for key in gathered for value in gathered[key]] == sorted(
                    pairs, key=lambda pair: list(gathered).index(pair[0])
                )


@target
def client_request(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        found = request.read_request(data)
        assert found.argv
        assert found.name.isprintable()
        assert 0 <= found.timeout_s <= request.TIMEOUT_S_MAX
    with contextlib.suppress(ValueError):
        request.read_used(data)


@target
def stream_messages(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        for _, tag, body in job_stream.unpack(data):
            assert len(tag) == 1
            with contextlib.suppress(ValueError):
                job_stream.read_delivered(bytes(body))


@target
def run_requests(data: bytes) -> None:
    """An accepted request can be made an order, and that order is read as it was meant."""
    from lbd.lbm.keeper_link import pack_order

    with contextlib.suppress(PeerError):
        found = run_request.read_run_request(data, LIMIT_BYTES, "")
        order = make_order(found, None, Config())
        again = read_order(pack_order(order))
        assert (again.argv, again.directory, again.stamp) == (
            order.argv, order.directory, order.stamp,
        )  # fmt: skip
        assert again.environment == order.environment


@target
def orders(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        order = read_order(data)
        assert order.argv
        here = Surroundings((0, 0), "kernel", b"LBD_KEPT=x:", 0)
        with contextlib.suppress(Refused):
            frame = compile_order(
                order, here, tuple((number, (soft, hard)) for number, soft, hard in order.limits)
            )
            ((_, body),) = frames.Splitter(len(frame)).feed(frame)
            assert dict(frames.fields(body))[WORDS] == texts(order.argv)


@target
def stamps(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        found = read_stamp(data)
        assert is_same(found, found) or not found.kernel or found.is_networked
        assert read_stamp(found.pack()).inode == found.inode


@target
def terminal_modes(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        found = modes.read_modes(data)
        modes.raw_modes(found)
        assert modes.read_modes(modes.pack_modes(found)) == found
    with contextlib.suppress(ValueError):
        size = modes.read_size(data)
        assert modes.read_size(modes.pack_size(size)) == size


@target
def lim_message(data: bytes) -> None:
    """Any message that can be read is well formed: written and read again, it says the same."""
    with contextlib.suppress(PeerError):
        found = convert.decode(data)
        assert convert.decode(convert.encode(found)) == found


@target
def lim_conversation(data: bytes) -> None:
    """A LIM accepts any well-formed messages from other hosts, in any order."""
    state = lim_state("h1", others=("h2", "h3"))
    now_s = 0.0
    for item in data.split(b"\xff\xfe"):
        with contextlib.suppress(PeerError):
            message = convert.decode(item)
            now_s += len(item) % 5
            actions = state.handle(e.Received(message), now_s)
            replies = [action for action in actions if isinstance(action, e.Reply)]
            assert len(replies) == 1
            for action in actions:
                if isinstance(action, e.Reply | e.Send | e.Broadcast):
                    convert.encode(state.envelope(action.body))
            sent = m.Hello(member("h1"), wants_members=True)
            state.handle(e.Replied(message.sender, sent, message), now_s)
            state.handle(e.Tick(), now_s)
            requests.status(state, now_s)


@target
def socket_questions(data: bytes) -> None:
    """Questions of local users to a LIM. An exception not suppressed would end the connection."""
    table = lim_state("h1", others=("h2",)).table
    with contextlib.suppress(PeerError):
        question = local.decode(frames.JSON, data)
        with contextlib.suppress(ConfigError, KeyError, TypeError, ValueError):
            requests.placement_request(question, table)
        with contextlib.suppress(ConfigError, KeyError, TypeError, ValueError):
            requests.lbm_status(question)
        with contextlib.suppress(ConfigError):
            requests.seconds(question, "returns_s")
        with contextlib.suppress(ConfigError, KeyError, TypeError, ValueError):
            name = settings.full_name(requests.text(question, "name"))
            settings.parsed(name, question["value"])


@target
def configuration(data: bytes) -> None:
    with contextlib.suppress(ConfigError, UnicodeDecodeError):
        text = data.decode()
        given = Given("lbd.toml", text)
        for section, table in parse(text, "lbd.toml").items():
            given.add_section(section, table)
        settle(given.config(), given)


@target
def override(data: bytes) -> None:
    with contextlib.suppress(ConfigError, UnicodeDecodeError):
        Given("", "").add_override(data.decode())


@target
def workload_trace(data: bytes) -> None:
    skipped: list[trace.BrokenLine] = []
    found = trace.read(data.splitlines(keepends=True), 1000, skipped.append)
    assert all(job.run_s > 0 for job in found.jobs)


@target
def balance_jobs(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        jobs = balance_trace.read_jobs(io.StringIO(data.decode(errors="replace")), "trace")
        assert jobs[0][0] == 0
        balance_trace.dealt_out(jobs, 3, 100.0, 0.1, "1")


@target
def learnt_file(data: bytes) -> None:
    book = Book(Lists(), 50, 10, 0.1)
    with contextlib.suppress(ValueError, RecursionError):
        book.read(json.loads(data))
        again = Book(Lists(), 50, 10, 0.1)
        again.read(json.loads(json.dumps(book.to_json())))
        book.shimless(0, 0.0)


@target
def staged_archive(data: bytes) -> None:
    """Unpacking creates nothing outside the one directory."""
    with tempfile.TemporaryDirectory(prefix="lbd-fuzz-") as root:
        inside, outside = Path(root, "in"), Path(root, "out")
        inside.mkdir()
        outside.mkdir()
        directory = os.open(inside, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            unpacker = Unpacker(
                io.BytesIO(data), Allowance(1 << 20, 100), lambda n: (directory, b"item%d" % n)
            )
            with contextlib.suppress(BadPack):
                unpacker.unpack()
        finally:
            os.close(directory)
        assert {path.name for path in Path(root).iterdir()} == {"in", "out"}
        assert not list(outside.iterdir())


@target
def shell_words(data: bytes) -> None:
    """A line that is called simple has the words that any shell would find."""
    from lbd.client.shell.words import simple_command

    with contextlib.suppress(UnicodeDecodeError):
        text = data.decode()
        found = simple_command(text)
        if found is not None:
            assert found == shlex.split(text)


@target
def invocations(data: bytes) -> None:
    argv = words(data)
    key = key_of(argv)
    assert key.isprintable()
    why_stays(argv, key, b"/tmp")


@target
def environments(data: bytes) -> None:
    kept, left = outgoing(words(data), DenyList(("*_TOKEN", "SSH_*"), ()), set())
    assert len(kept) + len(left) <= len(words(data)) + 1


@target
def releases(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        found = wire.read(data.decode(errors="replace"))
        assert wire.read(found.announcement()) == found


@target
def quantities(data: bytes) -> None:
    text = data.decode(errors="replace")
    with contextlib.suppress(ValueError):
        assert 0 <= units.duration_s(text) <= units.LONGEST_S
    with contextlib.suppress(ValueError):
        assert 0 <= units.size_bytes(text) <= units.LARGEST_BYTES


@target
def queue_selectors(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        wanted = selectors.read_selectors(data.decode(errors="replace").split(), "ann", 7)
        assert all(low <= high for low, high in wanted.ranges)


@target
def time_windows(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        window = windows.read_window(data.decode(errors="replace"))
        window.holds(windows.Moment(0, 12, 1, 1, 0))


@target
def certificates(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        der.valid_s(data)
    with contextlib.suppress(ValueError):
        found = names.identity_of(der.dns_names(data))
        assert found is None or is_host_name(found.host)
    with contextlib.suppress(ValueError):
        narrow = der.narrowed(data, names.asked_names("h1"))
        assert narrow != data


@target
def names_in_certificates(data: bytes) -> None:
    """A certificate accepted for a host has just the names that the authority gives that host."""
    given = [word.decode(errors="replace") for word in words(data)]
    found = names.identity_of(given)
    if found is not None:
        assert sorted(given) == sorted(names.names_of(found.host, found.issue))
    for name in given:
        if is_host_name(name):
            assert name.isascii()
            assert name.strip(".-_ *") == name
            assert not name.lower().endswith(names.SUFFIX)
            assert convert.name(name) == name


@target
def certificate_wanted(data: bytes) -> None:
    """A request to the process that has the authority's key."""
    shown, request, *more = [*words(data), b"", b""]
    with contextlib.suppress(PeerError):
        evidence.check_newcomer(shown, "h2", request)
    with contextlib.suppress(PeerError):
        evidence.check_renewal(AUTHORITY, shown, request, more[0], 0.0)
        raise AssertionError("signed by nobody")


@target
def join_tokens(data: bytes) -> None:
    with contextlib.suppress(ConfigError):
        token.parse(data.decode(errors="replace"))
    with contextlib.suppress(ConfigError, PeerError, ValueError):
        revocations.parse(data.decode(errors="replace"))


@target
def shown_text(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert one_line(text).isprintable()
    assert len(one_line(text, 20)) <= 20


def mutated(data: bytes, rng: Random) -> bytes:
    """A few random edits, of the kinds that find bugs."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        kind = rng.randrange(5)
        if kind == 0 and changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            changed[at:at] = rng.choice(INSERTS)
        elif kind == 2:
            del changed[at : at + rng.randint(1, 8)]
        elif kind == 3:
            end = min(len(changed), at + rng.randint(1, 32))
            changed[at:at] = changed[at:end]
        else:
            changed[at : at + 4] = rng.choice(NUMBERS)
    return bytes(changed)


NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\1\0\0\0")
INSERTS = (
    *NUMBERS, b"\0", b"\n", b" ", b"-1", b"9" * 30, b"9" * 400, b"9" * 5000, b"1e999", b"nan",
    b"..", b"/", b'"', b"'", b"\x1b[2J", b"\xe2\x80\xae", b"[" * 50, b"[" * 3000,
    b"%s", b"\xff" * 9,
)  # fmt: skip
