"""What a hostile user leaves below /var/tmp where another user's lbsh looks for its shims."""

import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.live.cluster import PREFIX, client_environment, clients_path
from tests.live.privileged import opened

pytestmark = pytest.mark.root

ROOT = Path(__file__).resolve().parents[3]
MALLORY = 65534
FORGED = "MALLORY'S PROGRAM RUNS\n"
TRUE = "the real one\n"


class Victim:
    """A user without a home directory, whose shims are therefore below /var/tmp."""

    def __init__(self, root, lbsh):
        self.uid = 20_000 + secrets.randbelow(40_000)
        self.root = root
        self.lbsh = lbsh
        (root / "bin").mkdir()
        program = root / "bin/seldom"
        program.write_text(f"#!/bin/sh\nprintf '{TRUE}'\n")
        program.chmod(0o755)
        self.base = Path(f"/var/tmp/lbd-shims-{self.uid}-{os.uname().nodename}")

    def run(self, command="set -e; seldom", home="/nonexistent"):
        # `set -e` makes it no simple command, so a shell looks for the program on its PATH.
        who = ("--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups")
        env = client_environment(HOME=home, LBD_CONFIG="/dev/null", XDG_STATE_HOME="")
        env["PATH"] = f"{self.root}/bin:/usr/bin:/bin"
        return subprocess.run(
            [*opened(), "setpriv", *who, self.lbsh, "-c", command],
            env=env, cwd="/", capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def forge(self, own_stamp):
        """What Mallory makes from what anybody can see; `own_stamp`: that of a set the victim
        has."""
        key = self.base / own_stamp.parent.name
        key.mkdir(parents=True)
        (key / "stamp").symlink_to(own_stamp)
        text = own_stamp.read_text()
        number = next(line[2:] for line in text.splitlines() if line.startswith("N "))
        (key / number).mkdir()
        program = key / number / "seldom"
        program.write_text(f'#!/bin/sh\necho "{FORGED.strip()}"\n')
        program.chmod(0o755)
        for path in (self.base, *self.base.rglob("*")):
            os.chown(path, MALLORY, MALLORY, follow_symlinks=False)


@pytest.fixture(scope="module", params=["compiled", "python"])
def lbsh(request):
    if os.geteuid() != 0 or not shutil.which("setpriv") or not shutil.which("cc"):
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up("needs root, setpriv and a C compiler")
    with tempfile.TemporaryDirectory(prefix=PREFIX) as directory:
        os.chmod(directory, 0o755)
        if request.param == "compiled":
            yield compiled(Path(directory))
        else:
            found = Path(clients_path(), "lbsh-python")
            yield found if found.exists() else Path(clients_path(), "lbsh")


def compiled(directory):
    """The compiled lbsh.c, with the Python client and the front where it looks for them."""
    client = Path(clients_path(), "lbsh-python")
    if not client.exists():
        client = Path(clients_path(), "lbsh")
    flag = f'-DPYTHON_CLIENT="{client}"'
    compile_ = ROOT / "deploy/compile"
    subprocess.run([compile_, ROOT / "lbd/client/c/lbsh.c", directory / "lbsh", flag], check=True)
    (directory / "lbrun").symlink_to(Path(clients_path(), "lbrun"))
    return directory / "lbsh"


@pytest.fixture
def victim(lbsh, short_dir):
    short_dir.chmod(0o755)
    victim = Victim(short_dir, lbsh)
    yield victim
    if victim.base.is_symlink():
        victim.base.unlink()
    shutil.rmtree(victim.base, ignore_errors=True)


@pytest.fixture
def own_stamp(victim):
    """The stamp of a genuine set of the victim's, moved away from where Mallory now makes
    another."""
    assert victim.run().stdout == TRUE
    elsewhere = victim.root / "elsewhere"
    shutil.copytree(victim.base, elsewhere, symlinks=True)
    for path in (elsewhere, *elsewhere.rglob("*")):
        os.chown(path, victim.uid, victim.uid, follow_symlinks=False)
    shutil.rmtree(victim.base)
    (stamp,) = elsewhere.glob("*/stamp")
    return stamp


def test_a_link_to_the_victims_own_stamp_vouches_for_nothing(victim, own_stamp):
    victim.forge(own_stamp)
    result = victim.run()
    assert (result.stdout, result.returncode) == (TRUE, 0), result
    assert result.stderr.startswith("lbsh: no shims, so commands run here: "), result


def test_a_stale_stamp_is_not_touched_through_a_link(victim, own_stamp):
    os.utime(own_stamp, (1, 1))
    victim.forge(own_stamp)
    for _ in range(2):  # the second call would believe what the first one touches
        result = victim.run()
        assert (result.stdout, result.returncode) == (TRUE, 0), result
    assert own_stamp.stat().st_mtime == 1


def test_a_base_that_is_a_link_is_not_followed(victim, own_stamp):
    """The link points to a directory of the victim's own, such as a checkout."""
    victim.forge(own_stamp)
    planted = victim.root / "planted"
    victim.base.rename(planted)
    for path in (planted, *planted.iterdir()):
        os.chown(path, victim.uid, victim.uid)
    victim.base.symlink_to(planted)
    os.chown(victim.base, MALLORY, MALLORY, follow_symlinks=False)
    result = victim.run()
    assert (result.stdout, result.returncode) == (TRUE, 0), result


def test_what_others_may_write_in_is_not_used(victim, own_stamp):
    victim.forge(own_stamp)
    for path in (victim.base, *victim.base.iterdir()):
        os.chown(path, victim.uid, victim.uid)
    victim.base.chmod(0o777)
    (key,) = victim.base.iterdir()
    (key / "stamp").unlink()
    shutil.copy(own_stamp, key / "stamp")
    os.chown(key / "stamp", victim.uid, victim.uid)
    result = victim.run()
    assert (result.stdout, result.returncode) == (TRUE, 0), result
    assert "is writable by others" in result.stderr


def test_another_users_link_does_not_decide_where_they_are(victim):
    """As after `sudo -E`. Where the link leads to is the victim's own at first."""
    own, home = victim.root / "own", victim.root / "home"
    own.mkdir()
    os.chown(own, victim.uid, victim.uid)
    (home / ".local").mkdir(parents=True)
    (home / ".local/state").symlink_to(own)
    for path in (home, *home.rglob("*")):
        os.chown(path, MALLORY, MALLORY, follow_symlinks=False)
    for _ in range(2):  # also once there is a stamp
        result = victim.run('set -e; seldom; printf %s "$PATH"', str(home))
        assert result.stdout.startswith(f"{TRUE}{victim.base}/"), result
        assert str(home) not in result.stdout


@pytest.mark.parametrize("owner", [0, MALLORY])
def test_root_in_another_users_home_makes_no_shims_where_that_users_file_says(
    lbsh, owner, tmp_path
):
    """After `sudo -E`: it made hundreds of links in any directory of root's."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as root:
        state, config = Path(root, "state"), Path(root, "home/.config/lbd/lbd.toml")
        state.mkdir()
        config.parent.mkdir(parents=True)
        config.write_text(f'[host]\nstate_dir = "{state}"\n')
        os.chown(config, owner, owner)
        env = client_environment(HOME=f"{root}/home", LBD_CONFIG="", XDG_STATE_HOME="")
        env["PATH"] = clients_path() + ":/usr/bin:/bin"
        subprocess.run([lbsh, "-c", "set -e; echo"], env=env, cwd="/", timeout=60, check=True)
        assert bool(list(state.iterdir())) == (owner == 0)
