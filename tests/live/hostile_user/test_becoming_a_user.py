"""What a command inherits, or brings along, where the keeper's child becomes its user."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.keeper.spawn_order import Order, pack_order, read_order
from lbd.local import frames
from tests.live.privileged import ANN, MALLORY

pytestmark = pytest.mark.root

ROOT = Path(__file__).resolve().parents[3]
# A keeper as a service manager starts it, with its own session keyring and hard limits. It passes
# each order to one child at a time and prints the child's reply.
KEEPER = """
import ctypes, os, resource, sys
from lbd.keeper.child import Parent, fork_spare
from lbd.keeper.limits.cgroups import Containment
from lbd.keeper.preforked import Nursery
from lbd.keeper.spawn_order import read_order
from lbd.keeper.user_and_start_steps import read_failure
program, runtime_dir, limit, *orders = sys.argv[1:]
ctypes.CDLL("libkeyutils.so.1").keyctl_join_session_keyring(None)
if limit:
    number, soft, hard = map(int, limit.split())
    resource.setrlimit(number, (soft, hard))
parent = Parent.of_this_process(Containment(runtime_dir, False))
nursery = Nursery(parent, program.encode()) if program else None
for order in orders:
    spare = nursery.spares()[0] if nursery else fork_spare(parent)
    frame, _, _ = parent.steps_of(read_order(bytes.fromhex(order)), spare.group)
    spare.start(frame, [0, 1, 2])
    reply = spare.socket.recv(256)
    _, status = os.waitpid(spare.pid, 0)
    print(*(read_failure(reply) if reply else ()), status, flush=True)
"""
NOFILE, MEMLOCK, NICE, RTPRIO, RTTIME = 7, 8, 13, 14, 15


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("spare") / "spare"
    subprocess.run([ROOT / "deploy/compile", ROOT / "lbd/keeper/spare.c", made], check=True)
    return str(made)


@pytest.fixture(params=["compiled", "python"])
def program(request):
    return request.getfixturevalue("compiled") if request.param == "compiled" else ""


def who(name):
    entry = pwd.getpwnam(name)
    return entry.pw_uid, entry.pw_gid


def sh(name, script, **more):
    words = [b"/bin/sh", b"-c", script]
    environment = {b"PATH": b"/usr/bin:/bin"}
    return Order(job="h1-1", argv=words, environment=environment, user=who(name), **more)


def said_by(program, where, *orders, limit=""):
    packed = [pack_order(order) for order in orders]
    words = [program, str(where), limit, *(order.hex() for order in packed)]
    return subprocess.run(
        [sys.executable, "-c", KEEPER, *words], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=True,
    ).stdout  # fmt: skip


@pytest.mark.skipif(not shutil.which("keyctl"), reason="needs keyctl, of keyutils")
def test_no_key_of_one_job_is_in_reach_of_another(program, tmp_path):
    """Neither another user's job nor the same user's; a job's own session keyring works."""
    keeps = b"keyctl add user lbd-of-ann 4711 @s && keyctl search @s user lbd-of-ann"
    looks = b"keyctl search @s user lbd-of-ann; keyctl add user mine 1 @s >&- && echo can add"
    said = said_by(program, tmp_path, sh(ANN, keeps), sh(MALLORY, looks), sh(ANN, looks))
    assert said.count("Required key not available") == 2, said
    assert said.count("can add") == 2, said


HARD = 400


@pytest.mark.parametrize(
    ("asked", "got"),
    [((300, 4000), "300 400"), ((200, 300), "200 300"), ((1 << 63, 1 << 63), "400 400")],
)
def test_a_hard_limit_is_lowered_and_never_raised(program, tmp_path, asked, got):
    order = sh(MALLORY, b"echo $(ulimit -Sn) $(ulimit -Hn)", limits=((NOFILE, *asked),))
    said = said_by(program, tmp_path, order, limit=f"{NOFILE} {HARD} {HARD}")
    assert got in said.splitlines(), said


@pytest.mark.parametrize("number", [MEMLOCK, NICE, RTPRIO, RTTIME])
def test_what_lets_a_process_come_first_is_the_hosts_own(program, tmp_path, number):
    order = sh(MALLORY, b"cat /proc/self/limits", limits=((number, 1 << 63, 1 << 63),))
    plain = sh(MALLORY, b"cat /proc/self/limits")
    asking, without = (said_by(program, tmp_path, one) for one in (order, plain))
    assert asking == without


@pytest.mark.skipif(not os.path.exists("/proc/self/loginuid"), reason="a kernel without audit")
def test_the_audit_system_learns_whose_command_it_is(program, tmp_path):
    said = said_by(program, tmp_path, sh(MALLORY, b"cat /proc/self/loginuid"))
    assert said.startswith(str(who(MALLORY)[0])), said


@pytest.mark.parametrize(
    "user",
    [
        b"65534 65534 ", b"65534 65534  4", b"65534 65534" + b" " * 4096, b"65534", b"", b" 1 1",
        b"65534 65534 4\t", b"65534 65534 -1", b"65534 65534 4294967295", b"-1 65534", b"0x0 0",
        b"18446744073709551616 65534", b"65534 65534 4 x",
    ],
)  # fmt: skip
def test_a_user_that_is_not_numbers_is_nobody(user):
    """The keeper alone parses the user; the steps after it work with numbers."""
    packed = pack_order(Order(job="h1-1", argv=[b"/bin/true"]))
    with pytest.raises(ValueError, match="user"):
        read_order(packed + frames.field(b"w", user))


def test_a_program_that_may_run_brings_no_code_along(tmp_path):
    """The owner lists the programs that may run; variables such as PATH and HOME carry no code."""
    environment = {b"PATH": b"/usr/bin:/bin", b"HOME": b"/", b"LD_PRELOAD": b"/tmp/x.so"}
    order = sh(MALLORY, b"", allowed=(os.path.realpath("/usr/bin/env"),))
    order.argv, order.environment = [b"env"], environment
    said = said_by("", tmp_path, order)
    assert "HOME=/" in said
    assert "LD_PRELOAD" not in said


def test_a_link_that_changes_after_it_was_looked_at_changes_nothing(short_dir):
    """The link changes while the shell opens the files of -o."""
    short_dir.chmod(0o777)
    link = short_dir / "harmless"
    link.symlink_to(os.path.realpath("/usr/bin/true"))
    swaps = b'ln -sfn /usr/bin/id %s; shift 2; exec "$@"' % bytes(link)
    order = sh(MALLORY, b"", allowed=(os.path.realpath("/usr/bin/true"),), subject=bytes(link))
    order.argv = [b"/bin/sh", b"-c", swaps, b"lbd", b"", b"", bytes(link)]
    order.environment = {b"PATH": b"/usr/bin:/bin"}
    said = said_by("", short_dir, order)
    assert os.readlink(link) == "/usr/bin/id"
    assert "uid=" not in said
    assert said.split() == ["0"]
