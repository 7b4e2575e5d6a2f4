"""A user creates directories first where another's daemons would put theirs: anybody can below
/tmp."""

import asyncio
import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.lbm.keeper_link import KeeperLink
from lbd.process.self_start import command
from tests.live.cluster import client_environment
from tests.live.privileged import ANN, LBD, MALLORY, opened

pytestmark = pytest.mark.root

DAEMONS = ("up", "lim", "lbm", "dispatcher", "keeper")


@contextlib.contextmanager
def acting_as(user):
    entry = pwd.getpwnam(user)
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@contextlib.contextmanager
def listening(path):
    """A socket of Mallory's at `path`, open to all."""
    with socket.socket(socket.AF_UNIX) as listener:
        with acting_as(MALLORY):
            listener.bind(str(path))
            os.chmod(path, 0o777)
            listener.listen()
        listener.setblocking(False)
        yield listener


@pytest.fixture
def trap():
    """Ann's runtime directory as Mallory has made it: (directory, her keeper, her LIM)."""
    place = Path(f"/tmp/lbd-{pwd.getpwnam(ANN).pw_uid}")
    assert not place.exists()
    with acting_as(MALLORY):
        place.mkdir()
        place.chmod(0o777)
    try:
        with listening(place / "keeper.sock") as keeper, listening(place / "lim.sock") as lim:
            yield place, keeper, lim
    finally:
        shutil.rmtree(place)


@pytest.fixture
def home():
    place = Path(tempfile.mkdtemp(prefix="lbd-t-"))
    shutil.chown(place, ANN)
    yield place
    shutil.rmtree(place)


def as_ann(home, *argv):
    environment = client_environment(HOME=str(home))
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "LBD_CONFIG"):
        environment.pop(name, None)
    who = ("--reuid", ANN, "--regid", str(pwd.getpwnam(ANN).pw_gid), "--init-groups")
    return subprocess.run(
        [*opened(), "setpriv", *who, *argv], env=environment, cwd="/", capture_output=True,
        text=True, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("daemon", DAEMONS)
def test_daemons_do_not_run_in_a_directory_of_another_user(trap, home, daemon):
    place, keeper, _ = trap
    there = {path.name for path in place.iterdir()}
    done = as_ann(home, *command(daemon))
    assert done.returncode == 2, done.stderr
    said = f"lbd {daemon}: host.runtime_dir {place}: it is owned by user"
    assert done.stderr.startswith(said), done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in place.iterdir()} == there
    with pytest.raises(BlockingIOError):
        keeper.accept()


def test_lbctl_does_not_ask_in_a_directory_of_another_user(trap, home):
    place, _, lim = trap
    for words in (("status",), ("jobs",), ("restart", "lim")):
        done = as_ann(home, "lbctl", *words)
        assert done.returncode != 0
        assert f"host.runtime_dir {place}: it is owned by user" in done.stderr
    with pytest.raises(BlockingIOError):
        lim.accept()


def test_a_lab_does_not_go_up_in_a_directory_of_another_user(trap, home):
    place, _, _ = trap
    for words in (("up", "--hosts", "1"), ("status",), ("experiment", "--out", f"{home}/out")):
        done = as_ann(home, *command("lab", *words))
        assert done.returncode != 0
        assert f"{place}: it is owned by user" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not (place / "lab").exists()


def test_another_users_link_to_our_own_directory_is_not_followed(home):
    """The link could point elsewhere a moment later."""
    place = Path(f"/tmp/lbd-{pwd.getpwnam(ANN).pw_uid}")
    (home / "run").mkdir()
    shutil.chown(home / "run", ANN)
    with acting_as(MALLORY):
        place.symlink_to(home / "run")
    try:
        done = as_ann(home, *command("up"))
        assert done.returncode == 2
        assert "it is a link owned by user" in done.stderr
        done = as_ann(home, *command("lab", "up", "--hosts", "1"))
        assert "it is a link owned by user" in done.stderr
        assert list((home / "run").iterdir()) == []
    finally:
        place.unlink()


def test_an_lbm_takes_no_keeper_but_roots_and_its_own(short_dir):
    """The kernel says who listens; a keeper gets environments and descriptors."""
    short_dir.chmod(0o777)

    async def connect():
        await KeeperLink(lambda: None).connect(short_dir / "keeper.sock", Config())

    with listening(short_dir / "keeper.sock") as keeper:
        with pytest.raises(ConfigError, match="not root or us"):
            asyncio.run(connect())
        connection, _ = keeper.accept()
        with connection:
            assert connection.recv(1) == b""  # nothing was sent


def test_root_signals_no_process_that_only_the_daemons_account_names(two):
    """That account may write the pid file that `lbctl restart` reads."""
    file = two.root / "h1/run/lim.pid"
    before = file.read_text()
    with subprocess.Popen(["sleep", "60"]) as bystander:
        file.write_text(f"{bystander.pid}\n")
        try:
            done = two.run("root", "cd / && lbctl restart lim")
            assert done.returncode != 0
            assert "which belongs to another user" in done.stderr
            assert bystander.poll() is None
        finally:
            file.write_text(before)
            bystander.kill()


FLOOD = """
import socket
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
try:
    sock.sendto(b"WATCHDOG=1", "{path}")
except PermissionError:
    print("denied")
"""


def test_nobody_else_tells_lbd_up_anything(two):
    """A flood on this socket once made the daemons' watchdog messages get lost."""
    path = two.root / "h1/run/up.notify"
    program = two.root / "flood.py"
    program.write_text(FLOOD.format(path=path))
    assert two.run(MALLORY, f"/usr/bin/env -i python3 {program}").stdout == "denied\n"
    assert path.owner() == LBD
    assert two.run(LBD, f"/usr/bin/env -i python3 {program}").stdout == ""
