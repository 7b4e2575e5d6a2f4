"""lbd.toml: what is read, and that every fault is one line with file, line, key and fix."""

import os
from pathlib import Path

import pytest

from lbd.config import load as config_file
from lbd.config.load import load
from lbd.config.schema import Config, HostEntry, LimConfig
from lbd.errors import ConfigError

HOSTS = """
[[cluster.hosts]]
name = "h1"
address = "127.0.0.2"

[[cluster.hosts]]
name = "h2"
address = "127.0.0.3"
lim_port = 8001
lbm_port = 8002
"""


@pytest.fixture(autouse=True)
def _own_home(tmp_path, monkeypatch):
    """Makes sure that no configuration file of this machine is found."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("LBD_CONFIG", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(config_file, "SYSTEM_FILE", tmp_path / "etc/lbd.toml")


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_built_in_defaults_are_one_host_on_loopback():
    config = load()
    assert config.path == ""
    assert config.cluster.hosts == ()
    assert config.host.address == "127.0.0.1"
    assert config.host.name
    assert config.host.runtime_dir.startswith("/")
    assert config.lim == LimConfig()


def test_a_list_of_names(tmp_path):
    path = write(tmp_path / "c.toml", '[eligibility]\nnever = ["ls", "gcc -E"]\n')
    assert load(path).eligibility.never == ("ls", "gcc -E")
    assert load(path, ['eligibility.never=["x"]']).eligibility.never == ("x",)
    for wrong in ('"ls"', "[1]", '[""]', "3", "[[]]"):
        with pytest.raises(ConfigError, match=r"c.toml:2: eligibility.always: .* is not a list"):
            load(write(tmp_path / "c.toml", f"[eligibility]\nalways = {wrong}\n"))


def test_the_lists_of_a_user_are_laid_over_the_system_file(tmp_path, monkeypatch):
    own = write(tmp_path / "home/.config/lbd/lbd.toml", '[eligibility]\nalways = ["fit"]\n')
    assert load().eligibility.always == ("fit",)
    write(tmp_path / "etc/lbd.toml", '[lbm]\nslots = 3\n[eligibility]\nalways=["a"]\nnever=["b"]\n')
    config = load()
    assert (config.lbm.slots, config.eligibility.always) == (3, ("fit",))
    assert (config.eligibility.never, config.path) == (("b",), str(tmp_path / "etc/lbd.toml"))
    assert load(own).lbm.slots == 0  # named explicitly: only that file counts
    write(tmp_path / "home/.config/lbd/lbd.toml", "[eligibility]\nalways = 3\n")
    with pytest.raises(ConfigError, match=rf"{own}:2: eligibility.always"):
        load()
    write(tmp_path / "home/.config/lbd/lbd.toml", "[lbm]\nslots = 1\n[eligibility]\n")
    assert load().lbm.slots == 1


def test_search_order(tmp_path, monkeypatch):
    places = [tmp_path / "etc/lbd.toml", tmp_path / "home/.config/lbd/lbd.toml"]
    for rank, path in enumerate(places, 1):
        write(path, f"[lbm]\nslots = {rank}\n")
        assert load().lbm.slots == rank
        assert load().path == str(path)
    monkeypatch.setenv("LBD_CONFIG", write(tmp_path / "env.toml", "[lbm]\nslots = 3\n"))
    assert load().lbm.slots == 3
    assert load(write(tmp_path / "arg.toml", "[lbm]\nslots = 4\n")).lbm.slots == 4


def test_a_named_file_must_exist(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"^--config /nowhere.toml: no such file$"):
        load("/nowhere.toml")
    monkeypatch.setenv("LBD_CONFIG", str(tmp_path))
    with pytest.raises(ConfigError, match=r"^\$LBD_CONFIG .*: a directory, not a file$"):
        load()


def test_a_home_that_we_may_not_enter_is_skipped(tmp_path, monkeypatch):
    """As after `su` without a new $HOME. A name that is too long fails even for root."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ("x" * 300)))
    assert load().path == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can have a file of another user's here")
def test_root_in_another_users_home_does_not_go_by_that_users_file(tmp_path):
    own = write(tmp_path / "home/.config/lbd/lbd.toml", '[daemons]\nuser = "root"\n')
    assert load().daemons.user == "root"
    os.chown(own, 65534, 65534)
    assert (load().path, load().daemons.user) == ("", "")
    write(tmp_path / "etc/lbd.toml", "[lbm]\nslots = 3\n")
    assert (load().lbm.slots, load().daemons.user) == (3, "")
    assert load(own).daemons.user == "root"  # named explicitly


@pytest.mark.root
def test_root_in_another_users_home_does_not_follow_that_users_link_to_a_file_of_roots(tmp_path):
    """Whoever keeps a process of theirs from being looked at gives its /proc/PID/environ, of which
    they write the text, to root."""
    roots = write(tmp_path / "roots.toml", '[daemons]\nuser = "root"\n')
    home = tmp_path / "home/.config/lbd"
    home.mkdir(parents=True)
    (home / "lbd.toml").symlink_to(roots)
    assert load().daemons.user == "root"
    for theirs in (home / "lbd.toml", home, tmp_path / "home"):
        os.chown(theirs, 65534, 65534, follow_symlinks=False)
        assert (load().path, load().daemons.user) == ("", ""), theirs
        os.chown(theirs, 0, 0, follow_symlinks=False)
    assert load().daemons.user == "root"


def test_hosts_as_tables_and_as_a_list(tmp_path):
    entries = (HostEntry("h1", "127.0.0.2"), HostEntry("h2", "127.0.0.3", 8001, 8002))
    inline = (
        '[cluster]\nhosts = [{name="h1", address="127.0.0.2"}, '
        '{name="h2", address="127.0.0.3", lim_port=8001, lbm_port=8002}]\n'
    )
    assert load(write(tmp_path / "a.toml", HOSTS)).cluster.hosts == entries
    assert load(write(tmp_path / "b.toml", inline)).cluster.hosts == entries


def test_a_listed_host_takes_its_address_and_ports_from_the_list(tmp_path):
    config = load(write(tmp_path / "a.toml", HOSTS), ["host.name=h2"])
    assert (config.host.address, config.lim.port, config.lbm.port) == ("127.0.0.3", 8001, 8002)


def test_overrides_win_and_bare_words_are_strings(tmp_path):
    path = write(tmp_path / "a.toml", '[lim]\nalgorithm = "GLOBAL"\nlocal_threshold = 1\n')
    config = load(
        path, ["lim.algorithm=LOWEST", "lim.local_threshold=0.5", "users.allow_root=true"]
    )
    assert config.lim.algorithm == "LOWEST"
    assert config.lim.local_threshold == 0.5
    assert config.users.allow_root is True
    whole = load(path).lim.local_threshold
    assert (whole, type(whole)) == (1.0, float)


# text of the file, line, and what the message must contain
BAD_FILES = [
    ("[lim\n", 1, ["not TOML"]),
    ("[host]\naddress = 10.0.0.1\n", 2, ['text needs quotes: address = "10.0.0.1"']),
    ("[host]\nname = h1 # mine\n", 2, ['text needs quotes: name = "h1"']),
    ('[lim]\nalgorithm = "GLOBAL\n', 2, ["not TOML"]),
    ("[lim]\nport = 1\nport = 2\n", 3, ["not TOML"]),
    ("[lin]\nport = 1\n", 1, ["[lin]: unknown section", 'did you mean "lim"?']),
    ("[lim]\n\nalgoritm = 1\n", 3, ["lim.algoritm: unknown key", 'mean "algorithm"?']),
    ("[lim]\nzzz = 1\n", 2, ["lim.zzz: unknown key; no known name is similar"]),
    ("lim = 3\n", 1, ["lim is a section; write [lim] above its keys"]),
    ("lim.prt = 3\n", 1, ["lim.prt: unknown key"]),
    (
        '[lim]\nalgorithm = "lowst"\n',
        2,
        ["lim.algorithm", 'mean "LOWEST"?'],
    ),
    ("[lim]\nalgorithm = 7\n", 2, ["7 is not a text in quotes (GLOBAL | DISTED"]),
    ('[lim]\nport = "7901"\n', 2, ['lim.port: "7901" is not a whole number (1 to 65535)']),
    ("[lim]\nport = 1.0\n", 2, ["1.0 is not a whole number"]),
    ("[lim]\nport = true\n", 2, ["true is not a whole number"]),
    ("[lim]\nport = 0\n", 2, ["lim.port: 0 is out of range; allowed: 1 to 65535"]),
    ("# x\n[lim]\n# y\nprobe_limit = -1\n", 4, ["out of range"]),
    ("[lim]\nexchange_period_s = true\n", 2, ["true is not a number of seconds"]),
    ("[lim]\nexchange_period_s = nan\n", 2, ["nan is out of range"]),
    ("[lim]\nexchange_period_s = inf\n", 2, ["inf is out of range"]),
    ("[users]\nallow_root = 1\n", 2, ["1 is not true or false"]),
    ('[host]\nname = "a\\nb"\nspeed = "a\\nb"\n', 3, ['"a\\nb" is not a number']),
    ('[host]\nruntime_dir = "run"\n', 2, ['host.runtime_dir: "run" must start with /']),
    ('[stage]\nroot = "stage"\n', 2, ['stage.root: "stage" must start with /']),
    ('[environment]\ndeny = "X"\n', 2, ['environment.deny: "X" is not a list like ["X"]']),
    ('[tags]\ntiers = "h1"\n', 2, ['tags.tiers: "h1" is not a list like ["h1:1", "h2:2,3"]']),
    ("[environment]\nallow = [1]\n", 2, ["environment.allow: [1] is not a list like"]),
    ('[security]\nkey_file = "key"\n', 2, ['security.key_file: "key" must start with /']),
    (
        '[host]\nname = "h 1"\n',
        2,
        ['host.name: "h 1" is not a valid host name: letters and digits'],
    ),
    ('[cluster]\njoin = "10.0.0.1"\n', 2, ["must be address:port, like 10.0.0.1:7901"]),
    ('[cluster]\njoin = "10.0.0.1:x"\n', 2, ["must be address:port"]),
    (
        '[cluster]\nhosts = [{name="-", address="x"}]\n',
        2,
        ['entry 1: name: "-" is not a valid host name'],
    ),
    ('[cluster]\nhosts = "h1"\n', 2, ["is not a list of tables like {name"]),
    ('[cluster]\nhosts = ["h1"]\n', 2, ['entry 1: "h1" is not a table']),
    ('[[cluster.hosts]]\nname = "h1"\n', 1, ["entry 1: no address"]),
    (
        '[[cluster.hosts]]\nname = "h1"\naddres = "x"\n',
        3,
        ['addres: unknown key; did you mean "add'],
    ),
    ('[[cluster.hosts]]\nname="h1"\naddress="x"\nlim_port=0\n', 4, ["lim_port: 0 is out of range"]),
    (HOSTS.replace("h2", "h1"), 2, ['entry 2: another entry is named "h1"']),
    (
        "[lim]\nkeepalive_s = 20\n",
        2,
        ["lim.keepalive_s must not exceed lim.stale_after_s (20 > 12)"],
    ),
    (
        "[lim]\ndown_after_s = 2\n",
        2,
        ["lim.stale_after_s must not exceed lim.down_after_s (12 > 2)"],
    ),
    ('[host]\nname = "h1"\naddress = "9.9.9.9"\n' + HOSTS, 3, ["cluster.hosts gives h1"]),
]


@pytest.mark.parametrize(("text", "line", "parts"), BAD_FILES)
def test_every_fault_is_one_line_with_place_and_fix(tmp_path, text, line, parts):
    path = write(tmp_path / "lbd.toml", text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:{line}: ")
    assert "\n" not in message
    for part in parts:
        assert part in message


BAD_OVERRIDES = [
    ("lim", "must be section.key=value"),
    ("lim.port", "must be section.key=value"),
    ("port=1", "must be section.key=value"),
    ("lin.port=1", 'did you mean "lim"?'),
    ("lim.prot=1", 'did you mean "port"?'),
    ("lim.port=x", '"x" is not a whole number'),
    ("lim.port=", '"" is not a whole number'),
    ("lim.port=1\nlbm = 2", "is not a whole number"),
    ("host.memory=0G", "host.memory: must be above 0 and below 4096.0T"),
    ("host.memory=4096T", "host.memory: must be above 0 and below 4096.0T"),
]


@pytest.mark.parametrize(("override", "part"), BAD_OVERRIDES)
def test_bad_overrides(override, part):
    with pytest.raises(ConfigError, match="--set") as caught:
        load(None, [override])
    assert part in str(caught.value)


def test_unreadable_text(tmp_path):
    (tmp_path / "a.toml").write_bytes(b"[lim]\n\xff")
    with pytest.raises(ConfigError, match=r"a.toml: not UTF-8 text \(byte 6\)$"):
        load(str(tmp_path / "a.toml"))


def test_a_section_checks_itself_when_made_in_code():
    with pytest.raises(ConfigError, match="probe_limit: 0 is out of range"):
        LimConfig(probe_limit=0)


def test_the_defaults_are_within_their_own_bounds():
    assert Config() == Config()


def test_the_system_file_is_for_the_system_daemons():
    write(config_file.SYSTEM_FILE, "[cluster]\nname = 'x'\n")
    host = load().host
    assert (host.runtime_dir, host.state_dir) == ("/run/lbd", "/var/lib/lbd")


def test_a_file_with_only_comments_can_be_written_to():
    write(config_file.SYSTEM_FILE, "# nothing yet\n")
    assert config_file.absent_file(None) == config_file.SYSTEM_FILE
    write(config_file.SYSTEM_FILE, "[cluster]\nname = 'x'\n")
    assert config_file.absent_file(None) is None
