"""Another user listens in place of this host's LBM: no client of ours sends anything to it."""

import os
import select
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.live.cluster import client_environment, compile_front

pytestmark = pytest.mark.root

SECONDS = 30
OTHER = 65534  # stands for the daemons' account, or for somebody who means harm
# Places of a listener of OTHER's: the parent's owner and mode, its own, and whether clients trust
# it.
PLACES = {
    "an account's, made by root, as /run/lbd": ((0, 0o755), (OTHER, 0o755), True),
    "root's, a group may write there": ((0, 0o755), (0, 0o775), True),
    "below another's, as /run/user/UID/lbd": ((OTHER, 0o755), (OTHER, 0o755), False),
    "where anybody makes one, as in /run/lock": ((0, 0o1777), (OTHER, 0o755), False),
    "where a group makes one": ((0, 0o775), (OTHER, 0o755), False),
    "where anybody writes, as /run/lock itself": ((0, 0o755), (0, 0o1777), False),
}
LINKS = {
    "root's link to an account's": (0, (0, 0o755), True),
    "root's link, where anybody makes one": (0, (0, 0o1777), True),
    "another's link, where anybody makes one": (OTHER, (0, 0o1777), False),
}


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    if os.geteuid() != 0 or not shutil.which("cc"):
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs root and a C compiler")
    return compile_front(tmp_path_factory.mktemp("front") / "lbrun", "/bin/true")


@pytest.fixture(params=["compiled", "python"])
def lbrun(request, front):
    return (front,) if request.param == "compiled" else ("env", "LBD_FRONT=python", "lbrun")


def hears(lbrun, directory, config, **environment):
    """Whether a process of OTHER's that listens in `directory` receives anything."""
    config.write_text(f'[host]\nruntime_dir = "{directory}"\n')
    environment = environment or {"LBD_CONFIG": str(config)}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/lbm.sock")
        os.seteuid(OTHER)
        try:
            listener.listen()
        finally:
            os.seteuid(0)
        os.chmod(f"{directory}/lbm.sock", 0o777)
        heard, is_over = b"", False
        process = subprocess.Popen(
            [*lbrun, "true"], env=client_environment(**environment),
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            while not is_over:
                is_over = process.poll() is not None  # then look once more
                if select.select([listener], [], [], 0 if is_over else 0.05)[0]:
                    connection, _ = listener.accept()
                    connection.settimeout(SECONDS)
                    with connection:
                        heard += connection.recv(1)
        finally:
            process.kill()
            process.wait()
        return heard != b""


def made(path, owner_and_mode):
    owner, mode = owner_and_mode
    path.mkdir()
    path.chmod(mode)
    os.chown(path, owner, owner)
    return path


@pytest.mark.parametrize("place", PLACES)
def test_who_listens_is_believed_only_where_root_put_them(lbrun, place, short_dir):
    parent, own, is_believed = PLACES[place]
    short_dir.chmod(0o755)
    directory = made(made(short_dir / "run", parent) / "lbd", own)
    assert hears(lbrun, directory, short_dir / "lbd.toml") == is_believed


@pytest.mark.parametrize("place", LINKS)
def test_a_link_is_followed_only_where_root_put_it(lbrun, place, short_dir):
    owner, parent, is_believed = LINKS[place]
    short_dir.chmod(0o755)
    directory = made(made(short_dir / "run", (0, 0o755)) / "lbd", (OTHER, 0o755))
    link = made(short_dir / "links", parent) / "lbd"
    link.symlink_to(directory)
    os.chown(link, owner, owner, follow_symlinks=False)
    assert hears(lbrun, link, short_dir / "lbd.toml") == is_believed


def test_a_file_system_that_anybody_may_have_mounted_says_nothing(lbrun, short_dir):
    """FUSE, with `allow_other`, has root own whatever its user likes. A tmpfs stands for it."""
    short_dir.chmod(0o755)
    directory = made(made(short_dir / "run", (0, 0o1777)) / "lbd", (0, 0o755))
    assert hears(lbrun, directory, short_dir / "lbd.toml")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", directory], check=True)
    try:
        assert not hears(lbrun, directory, short_dir / "lbd.toml")
    finally:
        subprocess.run(["umount", directory], check=True)


def test_the_directories_of_this_system_that_belong_to_root(lbrun, short_dir):
    """/run/lock is below /run, and yet anybody may make a directory there."""
    if not Path("/run/lock").is_dir():
        pytest.skip("no /run/lock")
    directory = made(Path(f"/run/lock/lbd-t-{os.getpid()}"), (OTHER, 0o755))
    try:
        assert not hears(lbrun, directory, short_dir / "lbd.toml")
    finally:
        shutil.rmtree(directory)


@pytest.mark.parametrize("owner", [0, OTHER])
def test_root_in_another_users_home_does_not_go_by_that_users_file(lbrun, owner, short_dir):
    short_dir.chmod(0o755)
    directory = made(made(short_dir / "run", (0, 0o755)) / "lbd", (OTHER, 0o755))
    config = short_dir / "home/.config/lbd/lbd.toml"
    config.parent.mkdir(parents=True)
    config.touch()
    os.chown(config, owner, owner)
    home = {"HOME": str(short_dir / "home"), "LBD_CONFIG": "", "XDG_CONFIG_HOME": ""}
    assert hears(lbrun, directory, config, **home) == (owner == 0)


@pytest.mark.parametrize("named", [True, False], ids=["$LBD_CONFIG", "at home"])
@pytest.mark.parametrize("what", ["a FIFO", "a device without end"])
def test_nobody_waits_for_what_is_no_file(lbrun, what, named, short_dir):
    """`lbrun` once waited for a writer of the FIFO, and read the device until memory ran out."""
    config = short_dir / ".config/lbd/lbd.toml"
    config.parent.mkdir(parents=True)
    if what == "a FIFO":
        os.mkfifo(config)
    else:
        config.symlink_to("/dev/zero")
    environment = client_environment(LBD_CONFIG=str(config) if named else "", HOME=str(short_dir))
    done = subprocess.run(
        [*lbrun, "--local", "echo", "ran"], env=environment, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=2 * SECONDS,
    )  # fmt: skip
    if "LBD_FRONT=python" not in lbrun:  # the front leaves that to the Python client
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    elif named:
        assert (done.returncode, done.stdout) == (125, "")
        assert done.stderr == f"lbrun: $LBD_CONFIG {config}: not a regular file\n"
    else:
        assert done.stdout == "ran\n"
