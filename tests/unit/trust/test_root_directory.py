"""Where the authority is: root trusts only what root alone can have put there."""

import os
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.cli.ctl.trust import authority_in
from lbd.cli.daemons.authority import serve
from lbd.config.schema import Config, HostConfig
from lbd.errors import ConfigError
from lbd.launch.own_places import LINKS_MAX
from lbd.trust.authority import Authority
from lbd.trust.files import authority_dir
from lbd.trust.root_directory import check_root_directory
from tests.unit.mounts import mounted

DAEMONS = 65534
pytestmark = pytest.mark.root


@pytest.fixture
def config(tmp_path):
    """Returns the configuration of a host whose daemons' account has the state directory."""
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    os.chown(state, DAEMONS, DAEMONS)
    host = HostConfig(name="h1", state_dir=str(state), runtime_dir=str(tmp_path / "run"))
    return Config(host=host)


def made(root):
    """Makes an authority of root's."""
    authority = Authority(root, 86400.0)
    authority.create("lab", "h1", time.time())
    for path in (root, *root.iterdir()):
        os.chown(path, 0, 0)
    return authority


def test_it_is_not_in_the_daemons_directory(config):
    root = authority_dir(config)
    made(root)
    check_root_directory(root)
    assert not root.is_relative_to(config.host.state_dir)


@pytest.mark.parametrize("below", ["authority", "more/authority"])
async def test_what_the_daemons_could_have_put_there_signs_nothing(config, below):
    """Even a directory of root's own: within theirs they can put any other in its place."""
    root = f"{config.host.state_dir}/{below}"
    os.makedirs(root)
    os.rmdir(root)
    config = replace(config, tls=replace(config.tls, authority_dir=root))
    made(authority_dir(config))
    account = SimpleNamespace(uid=DAEMONS, gid=DAEMONS)
    with pytest.raises(ConfigError, match="can be changed by others than root"):
        await serve(config, account, SimpleNamespace(), lambda _: None)
    with pytest.raises(ConfigError, match="can be changed by others than root"):
        authority_in(config)


def test_links_are_followed_only_if_root_made_them(tmp_path):
    real, theirs = tmp_path / "real", tmp_path / "theirs"
    real.mkdir(mode=0o750)
    theirs.mkdir()
    (tmp_path / "good").symlink_to("./theirs/../real")
    (tmp_path / "absolute").symlink_to(real)
    check_root_directory(tmp_path / "good")
    check_root_directory(tmp_path / "absolute")
    os.chown(theirs, DAEMONS, DAEMONS)
    (tmp_path / "bad").symlink_to(real)
    os.chown(tmp_path / "bad", DAEMONS, DAEMONS, follow_symlinks=False)
    for path in (tmp_path / "bad", tmp_path / "good", tmp_path / "nothing"):
        with pytest.raises(ConfigError):
            check_root_directory(path)


def test_a_file_is_no_directory_for_an_authority(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file/authority"):
        with pytest.raises(ConfigError, match=r"file can be changed by others|Not a directory"):
            check_root_directory(path)


def test_what_leads_up_again_is_checked_as_well(tmp_path):
    (tmp_path / "open/root").mkdir(parents=True)
    (tmp_path / "open").chmod(0o1777)
    (tmp_path / "link").symlink_to("open/root/..")
    check_root_directory(tmp_path / "link/root")
    for name in ("link", "open/root/.."):
        with pytest.raises(ConfigError, match="can be changed by others than root"):
            check_root_directory(tmp_path / name)


@pytest.mark.parametrize("mode", [0o770, 0o757, 0o1777])
def test_a_directory_that_others_may_write_to_is_not_trusted(tmp_path, mode):
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(ConfigError, match="can be changed by others than root"):
        check_root_directory(path)


@pytest.mark.parametrize("links", [LINKS_MAX, LINKS_MAX + 1])
def test_a_chain_of_links_is_bounded(tmp_path, links):
    (tmp_path / "0").mkdir()
    for number in range(links):
        (tmp_path / str(number + 1)).symlink_to(str(number))
    check = lambda: check_root_directory(tmp_path / str(links))  # noqa: E731
    if links > LINKS_MAX:
        with pytest.raises(ConfigError, match="Too many levels of symbolic links"):
            check()
    else:
        check()


def test_only_in_a_sticky_directory_may_others_write(tmp_path):
    (tmp_path / "open/root").mkdir(parents=True)
    (tmp_path / "open").chmod(0o1777)
    check_root_directory(tmp_path / "open/root")
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="open can be changed by others than root"):
        check_root_directory(tmp_path / "open/root")


def test_what_a_user_has_mounted_in_a_place_for_all_is_not_trusted(tmp_path):
    (tmp_path / "open/root").mkdir(parents=True)
    (tmp_path / "open").chmod(0o1777)
    refused = pytest.raises(ConfigError, match="open can be changed by others than root")
    with mounted(tmp_path / "open/root"), refused:
        check_root_directory(tmp_path / "open/root")
