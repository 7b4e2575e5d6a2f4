"""A fault is one helpful line with the right status, and nothing is half done."""

import os
import secrets
import socket
import subprocess

import pytest
from cluster import client_environment, wait_until
from contract import assert_one_line

from lbd.lab import processes

PROGRAMS = {"lim": ("lbd", "lim"), "lbm": ("lbd", "lbm"), "up": ("lbd", "up"),
            "lbctl": ("lbctl", "status")}  # fmt: skip
SAID_BY = {"lim": "lbd lim", "lbm": "lbd lbm", "up": "lbd up", "lbctl": "lbctl"}
daemons = pytest.mark.parametrize("daemon", ["lim", "lbm"])

# A file, the line with the fault, and what the message must contain beside file and line.
FAULTY = {
    "unclosed section": ("[host\n", 1, ()),
    "no value": ('[host]\nname = "a"\nspeed =\n', 3, ()),
    "given twice": ("[lim]\nport = 8000\nport = 8001\n", 3, ()),
    "unknown section": ('[hots]\nname = "a"\n', 1, ("hots", '"host"')),
    "unknown key": ('[host]\nname = "a"\n\nspeeed = 1\n', 4, ("host.speeed", '"speed"')),
    "unknown key, below others": ("[lim]\n# words\n\nprot = 1\n", 4, ("lim.prot", '"port"')),
    "a key outside": ("x = 1\n", 1, ("[x]", "unknown section")),
    "a key for a section": ("\nlim = 1\n", 2, ("[lim]",)),
    "text for a number": ('[host]\nspeed = "fast"\n', 2, ("host.speed", "fast", "number")),
    "number for text": ("[host]\nname = 1\n", 2, ("host.name", "1")),
    "number for yes or no": ("[users]\nallow_root = 1\n", 2, ("users.allow_root", "true")),
    "fraction for a whole": ("[lbm]\nslots = 1.5\n", 2, ("lbm.slots", "1.5", "whole")),
    "list for a number": ("[lbm]\nslots = [1]\n", 2, ("lbm.slots",)),
    "not a number": ("[lim]\nmin_gain = nan\n", 2, ("lim.min_gain", "nan")),
    "too large": ("[lim]\n\nport = 99999\n", 3, ("lim.port", "99999", "1 to 65535")),
    "too small": ("[lbm]\nslots = -1\n", 2, ("lbm.slots", "-1", "0 to 65536")),
    "unknown choice": ('[lim]\nalgorithm = "GLOBL"\n', 2, ("GLOBL", '"GLOBAL"')),
    "unknown strategy": ('[dispatch]\nmalleable = "prde"\n', 2, ("prde", '"pred"')),
    "unknown rule for owners": ('[admission]\ndecide_by = "trails"\n', 2, ("trails", '"trials"')),
    "wrong case": ('[load]\nscope = "Host"\n', 2, ("load.scope", "Host", '"host"')),
    "join without a port": ('[cluster]\njoin = "h1"\n', 2, ("cluster.join", "h1", "port")),
    "host without a name": ('[[cluster.hosts]]\naddress = "127.0.0.1"\n', None, ("name",)),
    "unknown key of a host": ('[cluster]\nname = "c"\n[[cluster.hosts]]\nnam = "x"\n', 4,
                              ("nam", '"name"')),
    "two hosts of one name": ('[[cluster.hosts]]\nname = "x"\naddress = "127.0.0.1"\n'
                              '[[cluster.hosts]]\nname = "x"\naddress = "127.0.0.2"\n', None,
                              ("x",)),
}  # fmt: skip


def run(*words, config=None, root=None, **options):
    marks = {processes.MARK: str(root)} if root else {}
    if config is not None:
        marks["LBD_CONFIG"] = str(config)
    return subprocess.run(
        list(map(str, words)), env=client_environment(**marks), text=True, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=120, check=False, **options,
    )  # fmt: skip


def complain(result, status, program, *parts):
    assert "Traceback" not in result.stderr
    assert (result.returncode, result.stdout) == (status, ""), result.stderr
    assert_one_line(result.stderr, program, *map(str, parts))
    assert "[Errno" not in result.stderr


def complain_of_config(result, program, *parts):
    """`lbctl` only reads: it goes on with the valid part of the file, and here finds no daemon."""
    if program != "lbctl":
        complain(result, 2, SAID_BY[program], *parts)
        return
    assert (result.returncode, result.stdout) == (1, ""), result.stderr
    warning, away = result.stderr.splitlines(keepends=True)
    assert_one_line(warning, "lbctl", *map(str, parts), "continuing without it")
    assert_one_line(away, "lbctl", "is not running")


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_config(program, fault, tmp_path):
    text, line, parts = FAULTY[fault]
    config = tmp_path / "some.toml"
    config.write_text(text)
    where = f"{config}:{line}:" if line else f"{config}:"
    if program in ("lim", "lbctl"):
        result = run(*PROGRAMS[program], "--config", config, cwd=tmp_path)
    else:
        result = run(*PROGRAMS[program], config=config, cwd=tmp_path)
    complain_of_config(result, program, where, *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["some.toml"]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", ["missing", "directory", "not text"])
def test_a_config_that_cannot_be_read(program, kind, tmp_path):
    config = tmp_path / "some.toml"
    if kind == "directory":
        config.mkdir()
    if kind == "not text":
        config.write_bytes(b"[lim]\n\xff\xfe\n")
    part = {"missing": "no such file", "directory": "directory", "not text": "UTF-8"}[kind]
    for result in (
        run(*PROGRAMS[program], config=config), run(*PROGRAMS[program], "--config", config)
    ):  # fmt: skip
        if kind == "not text":
            complain_of_config(result, program, config, part)
        else:
            complain(result, 2, SAID_BY[program], config, part)


def test_lbrun_names_the_faulty_config_that_hides_its_daemons(tmp_path):
    config = tmp_path / "some.toml"
    config.write_text('[host]\nname = "a"\nruntime_dir = \n')
    result = run("lbrun", "echo", "out", config=config)
    assert result.returncode in (0, 125)
    assert_one_line(result.stderr, "lbrun", str(config))


NEVER_QUEUED = {
    "-n 8-1": "the range is backwards",
    "-n 4-4": "the range is a single number",
    "-n 1-4 --speedup 4,-1": "SIGMA must be 0 or more",
    "-n 1-4 --speedup 0.5": "A must be 1 or more",
    "--array 1-3 --target -5": "is not a duration",
    "--array 1-3 --target 0": "must be above 0",
    "--array 1-3 --deadline 2020-01-01T06:00": "has passed",
    "--array 1-3 --gang -n 1-2": "--gang cannot be used with",
    "--gang": "--gang needs --array",
}


@pytest.mark.parametrize("program", ["lbrun", "lbrun-python"])
def test_a_senseless_job_is_refused_before_any_daemon_is_asked(program, short_dir):
    config, _ = write(short_dir)
    (short_dir / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as lbm:
        lbm.bind(str(short_dir / "run" / "lbm.sock"))
        lbm.listen()
        lbm.setblocking(False)
        for options, part in NEVER_QUEUED.items():
            result = run(program, "-d", *options.split(), "true", config=config)
            complain(result, 125, "lbrun", part)
            with pytest.raises(BlockingIOError):
                lbm.accept()


SET = [("frob", "section.key=value"), ("lim.prot=1", '"port"'), ("lmi.port=1", '"lim"'),
       ("lim.port=abc", "abc"), ("lim.port=0", "1 to 65535"), ("lim.algorithm=X", "GLOBAL"),
       ("users.allow_root=maybe", "true"), ("=", "section.key=value")]  # fmt: skip


@pytest.mark.parametrize("program", ["lim", "lbm", "up"])
def test_a_faulty_set(program, short_dir):
    config, _ = write(short_dir)
    for word, part in SET:
        result = run(*PROGRAMS[program], "--set", word, config=config)
        complain(result, 2, SAID_BY[program], word, part)
    assert_clean(short_dir)


# Faults that only a starting daemon can find


def write(root, address=None, key="key", **more):
    """Writes the configuration of a host of its own, with a valid key file unless `key` asks
    otherwise."""
    good = root / "key"
    good.write_text(secrets.token_hex(32))
    good.chmod(0o600)
    address = address or f"127.{secrets.randbelow(200) + 20}.9.1"
    sections = {
        "host": {"name": "solo", "speed": 1.0, "address": address, "runtime_dir": f"{root}/run",
                 "state_dir": f"{root}/state"},
        "security": {"key_file": f"{root}/{key}"},
        "daemons": {"user": "root"},
    }  # fmt: skip
    for name, value in more.items():
        section, _, entry = name.partition("_")
        sections.setdefault(section, {})[entry] = value
    lines = []
    for section, keys in sections.items():
        lines.append(f"[{section}]")
        lines += [f'{k} = "{v}"' if isinstance(v, str) else f"{k} = {v}" for k, v in keys.items()]
    config = root / "lbd.toml"
    config.write_text("\n".join([*lines, "[load]", "smoothing_s = 1.0", ""]))
    return config, address


def assert_clean(root):
    """Checks that nothing runs and no file suggests it. What a daemon locked may stay, and its
    last words, which the doctor reads."""
    wait_until(lambda: not processes.find(root), "no process left")
    known = {"lbd.toml", "key", "lim.pid", "lbm.pid", "up.pid", "next_job", "other", "file"}
    known |= {"lim.ended", "lbm.ended", "usage.sqlite", "usage.gap"}
    left = [path for path in root.rglob("*") if not path.is_dir() and path.name not in known]
    assert left == []


def spoil_key(root, kind):
    other = root / "other"
    if kind != "missing":
        other.write_text("short" if kind == "short" else "" if kind == "empty" else "k" * 64)
        other.chmod({"open": 0o644, "group": 0o640}.get(kind, 0o600))
    if kind == "directory":
        other.unlink()
        other.mkdir()


KEYS = {"missing": "o such file", "short": "32", "empty": "32", "open": "chmod 600",
        "group": "chmod 600", "directory": "directory"}  # fmt: skip


@daemons
@pytest.mark.parametrize("kind", KEYS)
def test_a_faulty_key(daemon, kind, short_dir):
    config, _ = write(short_dir, key="other")
    spoil_key(short_dir, kind)
    result = run("lbd", daemon, config=config, root=short_dir)
    complain(result, 2, f"lbd {daemon}", short_dir / "other", KEYS[kind])
    assert_clean(short_dir)


@daemons
@pytest.mark.parametrize("address", ["no.such.host.invalid", "300.1.1.1", "10.255.255.1", "::zz"])
def test_an_address_that_is_not_ours(daemon, address, short_dir):
    config, _ = write(short_dir, address)
    result = run("lbd", daemon, config=config, root=short_dir)
    complain(result, 2, f"lbd {daemon}", "host.address", address)
    assert_clean(short_dir)


@daemons
def test_a_port_in_use(daemon, short_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config, _ = write(short_dir, "127.0.0.1", **{f"{daemon}_port": port})
        result = run("lbd", daemon, config=config, root=short_dir)
        complain(result, 4, f"lbd {daemon}", f"127.0.0.1:{port}", "in use")
    assert_clean(short_dir)


@pytest.mark.parametrize("key", ["runtime_dir", "state_dir"])
@pytest.mark.parametrize("program", ["lim", "lbm", "up"])
def test_a_directory_that_cannot_be_created(program, key, short_dir):
    (short_dir / "file").write_text("")
    for path in (short_dir / "file", short_dir / "file/x", "/proc/nothing"):
        config, _ = write(short_dir, **{f"host_{key}": str(path)})
        result = run("lbd", program, config=config, root=short_dir)
        assert "Traceback" not in result.stderr
        assert result.returncode in (1, 2)
        said = [line for line in result.stderr.splitlines() if str(path) in line]
        assert said
        assert f"host.{key}" in said[0]
        if program != "up":
            assert_one_line(result.stderr, f"lbd {program}")
        assert_clean(short_dir)


@pytest.mark.parametrize("kind", ["key", "address", "port"])
def test_up_when_its_daemons_refuse_to_start(kind, short_dir):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config, _ = {
            "key": lambda: write(short_dir, key="no-such-key"),
            "address": lambda: write(short_dir, "no.such.host.invalid"),
            "port": lambda: write(short_dir, "127.0.0.1", lim_port=port),
        }[kind]()
        result = run("lbd", "up", config=config, root=short_dir)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    for line in result.stderr.splitlines():
        assert line.startswith(("lbd up: ", "lbd lim: ", "lbd lbm: ")), line
    assert_clean(short_dir)


# Other daemons run already, or did


@pytest.fixture
def started():
    """started(root, "lim", config): a daemon that answers, ended after the test."""
    running = []

    def start(root, daemon, config):
        with (root / f"{daemon}.log").open("a") as log:
            process = subprocess.Popen(
                ["lbd", daemon], env=client_environment(LBD_CONFIG=str(config)),
                stdin=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        running.append(process)
        wait_until(
            lambda: "ready" in (root / f"{daemon}.log").read_text() or process.poll() is not None,
            f"{daemon} is ready", 30,
        )  # fmt: skip
        assert process.poll() is None, (root / f"{daemon}.log").read_text()
        return process

    yield start
    for process in running:
        process.terminate()
        process.wait(20)


@daemons
def test_a_second_daemon_in_the_same_directories(daemon, short_dir, started):
    config, _ = write(short_dir)
    first = started(short_dir, daemon, config)
    complain(run("lbd", daemon, config=config), 1, f"lbd {daemon}", first.pid, "runtime_dir")
    assert first.poll() is None


@daemons
@pytest.mark.parametrize("shared", ["runtime_dir", "state_dir"])
def test_a_second_daemon_in_one_of_the_directories(daemon, shared, short_dir, started):
    first = started(short_dir, daemon, write(short_dir)[0])
    (short_dir / "b").mkdir()
    config, _ = write(short_dir / "b", **{f"host_{shared}": f"{short_dir}/{shared[:-4]}"
                                          .replace("runtime", "run")})  # fmt: skip
    try:
        result = run("timeout", "90", "lbd", daemon, config=config)
    finally:
        assert first.poll() is None
    complain(result, 1, f"lbd {daemon}", shared)


@daemons
def test_stale_sockets_are_no_obstacle(daemon, short_dir, started):
    (short_dir / "run").mkdir()
    for name in ("lim.sock", "lbm.sock", "keeper.sock"):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(str(short_dir / "run" / name))
    (short_dir / "run" / f"{daemon}.pid").write_text(f"{os.getpid()}\n")
    config, _ = write(short_dir)
    started(short_dir, daemon, config)
    reading = "status" if daemon == "lim" else "jobs"
    assert run("lbctl", reading, config=config).returncode == 0


def test_a_host_that_does_not_resolve_is_named(short_dir, started):
    config, address = write(short_dir)
    with config.open("a") as text:
        text.write(f'[cluster]\nhosts = [{{name = "solo", address = "{address}"}}, '
                   '{name = "far", address = "no.such.host.invalid"}]\n')  # fmt: skip
    for daemon in ("lim", "lbm"):
        started(short_dir, daemon, config)
    result = run("lbctl", "doctor", config=config)
    assert result.returncode == 1
    assert "no.such.host.invalid" in result.stdout
    result = run("lbrun", "-H", "far", "true", config=config)
    complain(result, 125, "lbrun", "far")
    assert run("lbrun", "echo", "out", config=config).stdout == "out\n"
