"""Text from another host (why it refuses a command, how the command ended, where it waits) reaches
the user as one line each: it clears no screen, sets no title, forges no second line."""

import os
import random
import shutil
import unicodedata
from pathlib import Path

import pytest

from lbd.local import client_tags as tags
from lbd.local.frames import field, pack
from tests.fuzz import c_programs
from tests.live.cluster import clients_path, has_front

ATTACKS = {
    "a title and an empty screen": b"\x1b]0;owned\x07\x1b[2J",
    "a line of its own": b"no\nlbrun: your password:\r\n",
    "erased again": b"no\x08\x08\x7f",
    "one-byte introducers": "\u009b2J\u0085\u0090x\u009c".encode(),
    "lines and paragraphs": "a\u2028b\u2029c\u000bd\u000ce".encode(),
    "text that turns round": "a\u202egnp.exe\u202c\u2066x\u2069\u200f".encode(),
    "what nobody sees": "pay\u200bpal\ufeff\u2060\u00ad\U000e0041".encode(),
    "no UTF-8": b"\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\x9b\xe2\x82",
}
PLAIN = ("no free slot", "ü ß € 漢字 🙂 x\u0301", "…")
SEED = 7


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The front and a shim of it, built with the sanitizers."""
    built = c_programs.build(tmp_path_factory.mktemp("sanitized"))
    if built is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no compiler with sanitizers")
    return built


def fields(**values):
    return b"".join(field(getattr(tags, name), value) for name, value in values.items())


def frames(said):
    """{where the text appears: (options, the frames that carry it, the exit status)}"""
    ended = pack(tags.DONE, fields(STATUS=b"0", SIGNAL_NUMBER=b"0", REASON=b"", CAUSE=b"exited"))
    failed = fields(STATUS=b"125", SIGNAL_NUMBER=b"0", REASON=said, CAUSE=b"failed")
    place = fields(HOST=said, REASON=said, JOB=b"")
    return {
        "warning": ((), pack(tags.WARN, said) + ended, 0),
        "end": ((), pack(tags.DONE, failed), 125),
        "place": (("-v",), pack(tags.PLACED, place) + ended, 0),
        "stays": (("--remote",), pack(tags.HERE, place), 125),
        "end in the queue": (("-q",), pack(tags.DONE, failed), 125),
        "waits": (("-q", "-v"), pack(tags.WAITS, said) + ended, 0),
        "refused by the queue": (("-q",), pack(tags.UNFIT, said), 125),
    }


def assert_one_line(text, name=b"lbrun: "):
    shown = text.decode()  # strict decoding
    assert text.startswith(name)
    assert shown.endswith("\n")
    assert shown[:-1].isprintable(), shown


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("where", frames(b""))
def test_a_reason_is_one_printable_line(programs, fake, where, attack):
    options, data, status = frames(ATTACKS[attack])[where]
    result = fake.run(
        [programs / "lbrun", *options, "true"], lambda peer, _: peer.sendall(data),
        ASAN_OPTIONS=c_programs.ENVIRONMENT["ASAN_OPTIONS"],
    )  # fmt: skip
    assert result.returncode == status, result
    assert_one_line(result.stderr)


def test_the_number_of_a_job_is_one_line_for_its_reader(programs, fake):
    if not has_front():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no compiled front")
    result = fake.run(
        [Path(clients_path(), "lbrun"), "-d", "true"],
        lambda peer, _: peer.sendall(pack(tags.QUEUED, b"7\n8\x1b[2J")),
    )
    assert (result.stdout, result.returncode) == (b"7 8?[2J\n", 0)


def test_a_shim_prints_one_line_too(programs, fake):
    shim = programs / "sleep"
    if not shim.exists():
        shim.symlink_to(programs / "lbrun")
    data = pack(tags.DONE, fields(STATUS=b"1", SIGNAL_NUMBER=b"0", REASON=b"\x1b[2J", CAUSE=b"x"))
    result = fake.run(
        [shim, "0"], lambda peer, _: peer.sendall(data),
        ASAN_OPTIONS=c_programs.ENVIRONMENT["ASAN_OPTIONS"],
    )  # fmt: skip
    assert (result.stderr, result.returncode) == (b"lbrun: ?[2J\n", 1)
    assert shutil.which("sleep")


def test_any_text_becomes_one_line_and_plain_text_is_unchanged(programs, fake):
    """Each warning is one line, in order, whatever it contains."""
    rng = random.Random(SEED)
    bits = [text.encode() for text in PLAIN] + list(ATTACKS.values())
    points = [
        chr(n) for n in range(1, 0x110000) if unicodedata.category(chr(n)) not in ("Cn", "Cs")
    ]
    said = [b"".join(rng.choices(bits, k=3)) for _ in range(100)]
    said += ["".join(rng.choices(points, k=20)).encode() for _ in range(200)]
    said += [rng.randbytes(rng.randrange(1, 60)).replace(b"\0", b"") for _ in range(200)]
    said += [b"x" * 100_000, *(text.encode() for text in PLAIN)]
    said = [b"." + text for text in said]  # so that no text is empty
    ended = pack(tags.DONE, fields(STATUS=b"0", SIGNAL_NUMBER=b"0", REASON=b"", CAUSE=b"exited"))
    data = b"".join(pack(tags.WARN, text) for text in said) + ended
    result = fake.run(
        [programs / "lbrun", "true"], lambda peer, _: peer.sendall(data),
        ASAN_OPTIONS=c_programs.ENVIRONMENT["ASAN_OPTIONS"],
    )  # fmt: skip
    c_programs.assert_sound(result, b"warnings")
    lines = result.stderr.splitlines(keepends=True)
    assert len(lines) == len(said)
    for line in lines:
        shown = line.decode()
        assert line.startswith(b"lbrun: .")
        assert all(unicodedata.category(c)[0] != "C" for c in shown[:-1] if is_known(c)), shown
        assert not set("\u2028\u2029") & set(shown)
    assert lines[-len(PLAIN) :] == [f"lbrun: .{text}\n".encode() for text in PLAIN]
    assert len(lines[-len(PLAIN) - 1]) < 10_000


def is_known(char):
    """Random bytes may spell a character that Unicode has not assigned."""
    return unicodedata.category(char) != "Cn"
