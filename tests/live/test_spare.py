"""spare.c and its twin in Python become the same command from the same order."""

import ctypes
import errno
import hashlib
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbd.keeper import user_and_start_steps as steps
from lbd.keeper.preforked import ANSWER, NO_CGROUP
from lbd.keeper.spawn_order import Order, pack_order
from lbd.keeper.user_and_start_steps import numbers
from lbd.launch.directory_look import kernel_id, look
from lbd.local import frames
from lbd.local.frames import field
from tests.live import sanitized

ROOT = Path(__file__).resolve().parents[2]
S = 10**9
# A keeper with a single child: it passes the order on and prints the reply on its socket.
KEEPER = """
import os, sys
from lbd.keeper.child import Parent, fork_spare
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.preforked import Nursery
from lbd.keeper.spawn_order import read_order
from lbd.keeper.user_and_start_steps import Refused, read_failure
program, runtime_dir, raw, *descriptors = sys.argv[1:]
parent = Parent.of_this_process(Containment(runtime_dir, False))
spare = Nursery(parent, program.encode()).spares()[0] if program else fork_spare(parent)
try:
    frame = sys.stdin.buffer.read()
    if raw == "order":
        frame, _, _ = parent.steps_of(read_order(frame), spare.group)
except Refused as refused:
    print(refused.phase, refused.number)
    sys.exit()
spare.start(frame, [int(word) for word in descriptors])
reply = spare.socket.recv(256)
_, status = os.waitpid(spare.pid, 0)
print(*(read_failure(reply) if reply else ()), status, flush=True)
"""


@pytest.fixture(scope="module", params=sanitized.BUILDS)
def compiled(tmp_path_factory, request):
    if request.param == "sanitized":
        return sanitized.need(sanitized.programs() / "spare")
    program = tmp_path_factory.mktemp("spare") / "spare"
    return sanitized.need(sanitized.compile_("lbd/keeper/spare.c", program, "-fPIE"))


def outcome(program, order, where, stdin=b"typed\n"):
    """(what the keeper hears and the wait status, standard output, standard error)."""
    paths = [where / name for name in ("in", "out", "err")]
    paths[0].write_bytes(stdin)
    ends = [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666) for path in paths]
    is_order = isinstance(order, Order)
    closed, packed = (order.closed_fds, pack_order(order)) if is_order else (0, order)
    wanted = [end for number, end in enumerate(ends) if not closed >> number & 1]
    kind = "order" if is_order else "steps"
    words = [str(program or ""), str(where), kind, *map(str, wanted)]
    said = subprocess.run(
        [sys.executable, "-c", KEEPER, *words], cwd=ROOT, pass_fds=wanted, input=packed,
        capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    for end in ends:
        os.close(end)
    return said.stdout, paths[1].read_bytes(), paths[2].read_bytes()


def shell(script, **more):
    return Order(job="h1-1", argv=[b"sh", b"-c", script], environment=ENVIRONMENT, **more)


ENVIRONMENT = {b"PATH": b"/usr/bin:/bin", b"ODD": b"\xff=x\n", b"EMPTY": b""}
FACTS = (
    b"pwd; umask; nice; ulimit -n; ulimit -Hn; ulimit -c; id; env | sort; ls -l /proc/self/fd | "
    b"grep -c '^l'; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; ps -o sid= -p $$ | grep -c $$; "
    b"cat"
)
ORDERS = {
    "facts": shell(
        FACTS,
        umask=0o27,
        nice=3,
        limits=(
            (7, 200, 300),
            (4, 0, 1 << 63),
        ),
    ),
    "a limit above the hard one": shell(b"ulimit -n; ulimit -Hn", limits=((7, 500, 400),)),
    "a limit that is none": shell(b"ulimit -n", limits=((99, 1, 1),)),
    "ignored signals": shell(
        b"grep SigIgn /proc/self/status", ignored_signals=0xFFFF_FFFF_FFFF_FFFF
    ),
    "no new privileges": shell(b"grep NoNewPrivs /proc/$$/status", no_new_privileges=True),
    "status": shell(b"exit 7"),
    "a signal": shell(b"kill -9 $$"),
    "arguments": Order(job="j", argv=[b"printf", b"%s|", b"", b"\xff\n", b"-n"]),
    "no PATH": Order(job="j", argv=[b"true"], environment={}),
    "not found": Order(job="j", argv=[b"lbd-no-such"], environment=ENVIRONMENT),
    "an empty name": Order(job="j", argv=[b""], environment=ENVIRONMENT),
    "not a directory": Order(job="j", argv=[b"/etc/passwd/x"], environment=ENVIRONMENT),
    "a directory": Order(job="j", argv=[b"/etc"], environment=ENVIRONMENT),
    "a zero byte": Order(job="j", argv=[b"echo", b"a\0b"], environment=ENVIRONMENT),
    "no stdin": shell(b"cat; echo $?", closed_fds=1),
    "no stdout": shell(b"echo lost; echo $? >&2", closed_fds=2),
    "nothing open": shell(b"true", closed_fds=7),
    "no such place": shell(b"pwd", directory=b"/lbd/no/such"),
    "limits of its own": shell(
        b"grep -E 'data|processes' /proc/self/limits",
        limits=((2, 1 << 62, 1 << 62),),
        memory_bytes=1 << 46,
        processes=4000,
    ),
    "a nice value that is none": shell(b"nice", nice=1 << 40),
    "many words": Order(job="j", argv=[b"echo", *[b"%d" % n for n in range(20_000)]]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_the_same_order(compiled, tmp_path, name):
    order = ORDERS[name]
    if order.directory == b"/":
        order.directory = os.fsencode(tmp_path)
    reference = outcome(None, order, tmp_path)
    assert outcome(compiled, order, tmp_path) == reference


def test_scripts_and_files_that_may_not_be_executed(compiled, tmp_path):
    script = tmp_path / "script"
    script.write_text('echo "$0" "$@"\n')
    order = Order(job="j", argv=[b"script", b"a"], environment={b"PATH": os.fsencode(tmp_path)})
    heard, printed, _ = outcome(compiled, order, tmp_path)
    assert (heard, printed) == outcome(None, order, tmp_path)[:2]
    assert heard.startswith(b"exec 13 ")
    script.chmod(0o755)
    heard, printed, _ = outcome(compiled, order, tmp_path)
    assert (heard, printed) == outcome(None, order, tmp_path)[:2]
    assert printed == os.fsencode(script) + b" a\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="root becomes anybody")
@pytest.mark.parametrize("user", [(65534, 65534), (65534, 12, 12, 65534), (0, 0, 0)])
def test_users(compiled, tmp_path, user):
    tmp_path.chmod(0o755)
    order = shell(b"id; cat /etc/shadow", user=user, directory=b"/")
    assert outcome(compiled, order, tmp_path) == outcome(None, order, tmp_path)


def stamps(directory):
    own = look(os.fsencode(directory), kernel_id(), ctypes.CDLL(None))
    other = replace(own, kernel="another")
    networked = replace(other, file_system="nfs4")
    unborn = replace(networked, born_ns=0)
    old = replace(unborn, changed_ns=own.changed_ns - 61 * S)
    return {
        "its own": own,
        "another inode": replace(own, inode=own.inode + 1),
        "another device": replace(own, device=own.device + 1),
        "another kernel": other,
        "seen over the network": networked,
        "the same kernel over the network": replace(networked, kernel=own.kernel, device=1),
        "sshfs": replace(other, file_system="fuse.sshfs"),
        "a type like one": replace(other, file_system="nfs4x"),
        "born at another time": replace(networked, born_ns=own.born_ns + 1),
        "birth not told": unborn,
        "changed a while ago": replace(unborn, changed_ns=own.changed_ns - 59 * S),
        "changed long ago": old,
        "changed in the future": replace(unborn, changed_ns=own.changed_ns + 61 * S),
        "changed since the look": replace(old, seen_ns=own.changed_ns + 59 * S),
        "changed before the look": replace(old, seen_ns=own.changed_ns + 61 * S),
        "no kernel told": replace(own, kernel=""),
    }


@pytest.mark.parametrize("name", stamps("/"))
def test_directories(compiled, tmp_path, name):
    place = tmp_path / "place"
    place.mkdir()
    order = shell(b"pwd", directory=os.fsencode(place), stamp=stamps(place)[name])
    assert outcome(compiled, order, tmp_path) == outcome(None, order, tmp_path)


NOT_PLAIN = (
    {"check": True}, {"look": True}, {"worker": True}, {"terminal": 1}, {"allowed": ("*",)},
    {"denied": ("*",)},
)  # fmt: skip


@pytest.mark.parametrize("asks", NOT_PLAIN, ids=str)
def test_an_order_that_spare_cannot_carry_out_is_not_plain(compiled, tmp_path, asks):
    """spare would answer ENOTSUP to it."""
    order = shell(b"exit 3", **asks)
    assert not order.is_plain
    heard, _, _ = outcome(compiled, order, tmp_path)
    assert heard.split()[1:] == [b"%d" % number for number in (errno.ENOTSUP, 127 << 8)]
    assert shell(b"exit 3").is_plain


NUMBER = numbers(1)
ODD = {
    "no step at all": b"",
    "no end": field(steps.UMASK, NUMBER),
    "a letter that is none": field(b"~", b""),
    "cut in its head": field(steps.UMASK, NUMBER)[:3],
    "cut in its value": field(steps.UMASK, NUMBER)[:-1],
    "a length that is none": steps.UMASK + b"\xff\xff\xff\xff" + NUMBER,
    "half a number": field(steps.UMASK, NUMBER[:4]),
    "no number": field(steps.UMASK, b""),
    "a number too many": field(steps.UMASK, NUMBER + NUMBER),
    "a limit without its end": field(steps.LIMIT, NUMBER + NUMBER),
    "half a group": field(steps.GROUPS, NUMBER + b"1"),
    "a user that is none": field(steps.USER, numbers(-1)),
    "a user beyond all": field(steps.USER, numbers(1 << 32)),
    "a group that is none": field(steps.GROUPS, numbers(4, (1 << 32) - 1)),
    "a descriptor beyond the three": field(steps.CLOSE, numbers(3)),
    "a descriptor below": field(steps.CLOSE, numbers(-1)),
    "one that did not come": field(steps.PLACE, numbers(3, 0)),
    "one before all": field(steps.PLACE, numbers(-1, 0)),
    "to where it may not be": field(steps.PLACE, numbers(0, 3)),
    "a text without an end": field(steps.DIRECTORY, b"/"),
    "no text": field(steps.DIRECTORY, b""),
    "two texts": field(steps.DIRECTORY, b"/\0/\0"),
    "a path without what to write": field(steps.WRITE, b"/dev/null\0"),
    "nothing to compare": field(steps.SAME, NUMBER),
    "nothing to run": field(steps.EXEC, b"/bin\0"),
    "what cannot be written": field(steps.WRITE, b"/lbd/no/such\x000\0"),
    "what need not be written": field(steps.TRY_WRITE, b"/lbd/no/such\x000\0"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_steps(compiled, tmp_path, name):
    """Both programs report the same, and neither runs anything."""
    frame = frames.pack(steps.STEPS, ODD[name])
    heard, *_ = outcome(compiled, frame, tmp_path)
    assert heard == outcome(None, frame, tmp_path)[0]
    assert heard.endswith(b" %d\n" % (127 << 8))


@pytest.fixture(scope="module")
def sanitised(tmp_path_factory):
    program = tmp_path_factory.mktemp("spare") / "spare"
    words = ("cc", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-w")
    found = subprocess.run([*words, "-o", program, ROOT / "lbd/keeper/spare.c"], check=False)
    if found.returncode != 0:
        pytest.skip("no compiler with sanitisers")
    return program


HARMLESS = [b"a", b"e", b"c", b"d", b"l", b"L", b"n", b"g", b"G", b"U", b"k", b"P", b"i", b"u",
            b"C", b"=", b"?"]  # fmt: skip


def hear(program, data):
    """The exit status of a spare that was sent `data`, and the complaints of it and the nursery."""
    asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with asking, asked:
        nursery = subprocess.Popen(
            [program, str(asked.fileno())], pass_fds=[asked.fileno()],
            stderr=subprocess.PIPE, env={"ASAN_OPTIONS": "detect_leaks=0"},
        )  # fmt: skip
        asked.close()
        asking.send(NO_CGROUP)
        answer, (end,), *_ = socket.recv_fds(asking, ANSWER.size, 1)
        (pid,) = ANSWER.unpack(answer)
        with socket.socket(fileno=end) as ours:
            ours.sendall(data)
            ours.shutdown(socket.SHUT_WR)
            _, status = os.waitpid(pid, 0)
        asking.close()
        _, errors = nursery.communicate(timeout=120)
        assert nursery.returncode == 0
    return os.waitstatus_to_exitcode(status), errors


def test_of_spares_made_together_none_holds_anothers_socket(compiled, tmp_path):
    """Each has its own, and sees that the keeper has closed it."""
    told = """
import os, sys
from lbd.keeper.child import Parent
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.preforked import SPARES_AT_ONCE, Nursery
parent = Parent.of_this_process(Containment(sys.argv[2], False))
spares = Nursery(parent, sys.argv[1].encode()).spares(SPARES_AT_ONCE)
assert len({one.pid for one in spares}) == SPARES_AT_ONCE
for one in spares:
    one.socket.close()
    assert os.waitpid(one.pid, 0)[1] == 0
"""
    words = [sys.executable, "-c", told, str(compiled), str(tmp_path)]
    subprocess.run(words, cwd=ROOT, timeout=60, check=True)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.tuples(st.sampled_from(HARMLESS),
                       st.binary(max_size=12) | st.lists(st.integers(-9, 99), max_size=7)
                       .map(lambda row: numbers(*row)))),
    st.integers(0, 12),
)  # fmt: skip
def test_garbage_does_not_become_a_command(sanitised, pairs, cut):
    body = b"".join(field(key, value) for key, value in pairs)
    data = frames.pack(b"S", body[: len(body) - cut] if cut < len(body) else body)
    status, errors = hear(sanitised, data)
    assert status in (0, 127)
    assert not errors, errors


def test_it_is_built_without_a_warning(tmp_path):
    words = ("cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
    subprocess.run([*words, "-o", tmp_path / "spare", ROOT / "lbd/keeper/spare.c"], check=True)
    assert stat.S_IXUSR & (tmp_path / "spare").stat().st_mode


@pytest.mark.parametrize("kind", ["spare", "python"])
def test_a_job_has_a_copy_of_its_input_and_the_lbms_own_is_emptied(compiled, tmp_path, kind):
    """Whoever passed the descriptor on kept 4 MiB of the LBM's memory for each job: 2 GiB ended it,
    and with it everybody's commands."""
    ours = os.memfd_create("input")
    data = bytes(range(256)) * (1 << 14)
    os.write(ours, data)
    os.lseek(ours, 0, os.SEEK_SET)
    limits = ((1, 0, 0),)  # of the size of files: it is for the command
    order = shell(b"sha256sum; stat -Lc %i:%s /dev/stdin", copies_input=True, limits=limits)
    reader, writer = os.pipe()
    program = str(compiled) if kind == "spare" else ""
    words = [program, str(tmp_path), "order", *map(str, (ours, writer, writer))]
    said = subprocess.run(
        [sys.executable, "-c", KEEPER, *words], cwd=ROOT, pass_fds=(ours, writer),
        input=pack_order(order), capture_output=True, timeout=120, check=True,
    )  # fmt: skip
    os.close(writer)
    with open(reader, "rb") as file:
        digest, seen = file.read().split(b"  -\n")
    inode, size = seen.split(b":")
    assert said.stdout == b"0\n"
    assert digest.decode() == hashlib.sha256(data).hexdigest()
    assert (int(inode) != os.fstat(ours).st_ino, int(size)) == (True, len(data))
    assert os.fstat(ours).st_size == 0
    os.close(ours)


@pytest.mark.parametrize("kind", ["spare", "python"])
@pytest.mark.parametrize("what", ["/dev/zero", "/proc/self/stat", "a pipe", "a hole"])
def test_root_copies_no_input_that_is_no_file_in_memory_or_is_too_long(
    compiled, tmp_path, kind, what
):
    """The child is still root then, and an LBM that was taken over passes what it likes. Zeros and
    a hole were copied without end; Linux itself refuses pipes and files of /proc today."""
    reader, writer = os.pipe()
    if what == "a hole":
        ours = os.memfd_create("input")
        os.truncate(ours, 1 << 40)
    else:
        ours = reader if what == "a pipe" else os.open(what, os.O_RDONLY)
    program = str(compiled) if kind == "spare" else ""
    words = [program, str(tmp_path), "order", *map(str, (ours, writer, writer))]
    order = shell(b"cat >/dev/null", copies_input=True)
    said = subprocess.run(
        [sys.executable, "-c", KEEPER, *words], cwd=ROOT, pass_fds=(ours, writer),
        input=pack_order(order), capture_output=True, timeout=5, check=True,
    )  # fmt: skip
    wanted = errno.EFBIG if what == "a hole" else errno.EINVAL
    assert said.stdout.split()[:3] == [b"descriptors", b"%d" % wanted, b"32512"], said
    for end in {ours, reader, writer}:
        os.close(end)
