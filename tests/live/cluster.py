"""A lab for tests, driven by the real programs. Its waits report what they last saw."""

import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import ClassVar

from lbd.cli.quantities import signal_named
from lbd.lab import cgroups, processes, removal
from lbd.lab import lab as labs
from lbd.lab.plan import DAEMONS, HostPaths, cgroup_name
from lbd.lab.record import load
from lbd.local.json_socket import ask
from lbd.process.self_start import PACKAGE_PARENT, command, environment

PREFIX = "lbd-t-"  # short: Unix socket paths below it must fit in 107 bytes
POLL_S = 0.05

# Seconds instead of minutes, for tests that wait for time to pass.
FAST = (
    "lim.exchange_period_s=0.2", "lim.keepalive_s=0.8", "lim.stale_after_s=6.0",
    "lim.down_after_s=8.0", "lim.centre_silence_s=1.5", "lim.avoid_s=1.0", "load.smoothing_s=1.0",
    "lbm.orphan_after_s=3.0", "lbm.kill_grace_s=0.5", "lbm.connect_timeout_s=0.5",
)  # fmt: skip

# For labs in which no host is cut off: a machine that stalls for two seconds loses no contact.
PATIENT = (*FAST, "lbm.orphan_after_s=20.0")

CLIENTS = {
    "lbd": "lbd.cli.main",
    "lbctl": "lbd.cli.lbctl",
    "lbrun": "lbd.client.lbrun",
    "lbrun-python": "lbd.client.lbrun",
    "lbsh": "lbd.client.shell.lbsh",
}


def is_installed():
    """Whether the installed package equals the source tree."""
    paths = [Path(sysconfig.get_path("purelib"), "lbd"), Path(PACKAGE_PARENT, "lbd")]
    installed, source = (
        {
            path.relative_to(root): path.read_bytes()
            for path in root.rglob("*")
            if path.suffix in (".py", ".c")
        }
        for root in paths
    )
    scripts = Path(sysconfig.get_path("scripts"))
    return installed == source and all((scripts / name).exists() for name in CLIENTS)


@functools.cache
def clients_path():
    """The directory of the clients: the installed ones, else ones made here for the source tree."""
    if is_installed():
        return sysconfig.get_path("scripts")
    made = Path(tempfile.gettempdir(), f"{PREFIX}bin-{os.getpid()}")
    made.mkdir(exist_ok=True)
    for name, module in CLIENTS.items():
        bare = "-IS" if module.startswith("lbd.client.") else "-P"
        script = made / name
        if not script.exists():
            lines = (
                f"#!{sys.executable} {bare}",
                "import sys",
                f"sys.path.insert(0, {PACKAGE_PARENT!r})",
                f"sys.argv[0] = {name!r}",
                f"from {module} import main",
                "sys.exit(main(sys.argv[1:]))",
            )
            script.write_text("\n".join(lines) + "\n")
            script.chmod(0o755)
    compiled = compile_front(made / "lbrun.new", made / "lbrun-python")
    if compiled.exists():
        compiled.rename(made / "lbrun")
    return str(made)


def compile_front(program, client, *flags):
    """Compiles the front as the installer does; leaves no program if there is no compiler."""
    words = [program, f'-DPYTHON_CLIENT="{client}"', *flags]
    source = Path(PACKAGE_PARENT, "lbd/client/c/lbrun.c")
    subprocess.run([Path(PACKAGE_PARENT, "deploy/compile"), source, *words], check=True)
    return program


def has_front():
    """Whether `lbrun` is the compiled front."""
    return Path(clients_path(), "lbrun").read_bytes().startswith(b"\x7fELF")


def client_environment(**more):
    """This process's environment, plus the paths of the clients and the source tree."""
    path = f"{clients_path()}:{os.environ.get('PATH', os.defpath)}"
    return environment({**os.environ, "PATH": path, **more})


def lab_command(*words):
    """`lbd lab …` as an argument vector, to be run with `client_environment()`."""
    return command("lab", *map(str, words))


def run_lab(*words, timeout=90, check=True, wrapper=()):
    """Runs `lbd lab …` to its end."""
    result = subprocess.run(
        [*wrapper, *lab_command(*words)], capture_output=True, text=True, timeout=timeout,
        env=client_environment(), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if check and result.returncode != 0:
        raise AssertionError(f"lbd lab {words}: {result.returncode}\n{result.stderr}")
    return result


EACH_WAY = (("h1", "h2"), ("h2", "h1"))
SERVED = (0, "served\n", "")


class Lab:
    """A lab that is up. A command for a host runs in that host's environment."""

    started: ClassVar["list[Lab]"] = []  # all labs of this session, for the check at its end

    def __init__(self, root: Path):
        self.root = root
        self.record = load(root)
        assert self.record is not None
        self.hosts = self.record.plan.hosts
        self.isolate = self.record.plan.isolate
        self._path = clients_path()
        self._background = []

    @classmethod
    def up(cls, hosts=2, isolate="none", *options, settings=FAST):
        """Starts a lab in a short directory of its own."""
        root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        if not {"--mode", "--store"} & set(options):  # no dispatcher unless a test asks for one
            settings = (*settings, "dispatch.host=")
        sets = [word for setting in settings for word in ("--set", setting)]
        words = ["--hosts", hosts, "--isolate", isolate, "--dir", root, *options, *sets]
        try:
            run_lab("up", *words)
            lab = cls(root)
        except BaseException:
            shutil.rmtree(root, ignore_errors=True)
            raise
        cls.started.append(lab)
        return lab

    def down(self):
        removal.down(self.root)
        for process in self._background:  # left behind by a test that failed
            close(process)
        self.assert_nothing_left()
        with contextlib.suppress(FileNotFoundError):
            self.root.rmdir()

    # Acting from a host

    def paths(self, host) -> HostPaths:
        return self.record.plan.paths(host)

    def environment(self, host, **more):
        """The environment that `lbd lab exec` would give, without starting a Python to get it."""
        marks = {
            "LBD_CONFIG": str(self.paths(host).config),
            processes.MARK: str(self.root),
            processes.MARK_HOST: host,
            "PATH": f"{self._path}:{os.environ['PATH']}",
        }
        return {**os.environ, **marks, **more}

    def command(self, host, *argv):
        inside = [str(self.paths(host).enter)] if self.isolate == "namespaces" else []
        return [*inside, *map(str, argv)]

    def run(self, host, *argv, env=None, timeout=120, text=True, check=False, **options):
        """Runs a command from `host` to its end and captures its output."""
        if "input" not in options:
            options.setdefault("stdin", subprocess.DEVNULL)
        if "stdout" not in options and "stderr" not in options:
            options["capture_output"] = True
        result = subprocess.run(
            self.command(host, *argv), env=self.environment(host, **(env or {})), text=text,
            timeout=timeout, **options,
        )  # fmt: skip
        if check and result.returncode != 0:
            raise AssertionError(f"{argv}: {result.returncode}\n{result.stderr}\n{self.logs()}")
        return result

    def popen(self, host, *argv, env=None, **options):
        """Starts a command from `host` in the background; the caller waits for it."""
        process = subprocess.Popen(
            self.command(host, *argv), env=self.environment(host, **(env or {})), **options
        )
        self._background.append(process)
        return process

    def served(self, origin, target):
        """The status and output of a command from `origin` that runs on `target`; `SERVED` if all
        is well."""
        result = self.run(origin, "lbrun", "-H", target, "echo", "served")
        return result.returncode, result.stdout, result.stderr

    def assert_all_served(self):
        """Checks that two hosts serve each other."""
        for pair in EACH_WAY:
            assert self.served(*pair) == SERVED, pair

    def lbctl_json(self, host, *argv):
        result = self.run(host, "lbctl", *argv, "--json", check=True)
        return json.loads(result.stdout)

    def lbctl_json_any(self, host, *argv):
        """The JSON of an `lbctl` command whose exit status is part of its result."""
        return json.loads(self.run(host, "lbctl", *argv, "--json").stdout)

    def ask(self, host, daemon, op, timeout_s=5.0, **fields):
        """Asks a daemon's socket one question."""
        return ask(self.paths(host).socket(daemon), {"op": op, **fields}, timeout_s)

    def states(self, host):
        """The state of each host as the LIM of `host` sees it: {"h1": "up", …}."""
        return {row["name"]: row["state"] for row in self.ask(host, "lim", "status")["hosts"]}

    # Acting on the lab

    def lab(self, *words, check=True):
        return run_lab(*words, "--dir", self.root, check=check)

    # Many tests do this, and few need to start a Python for it: `lbd lab` has tests of its own.

    def kill(self, host, part, signal="KILL"):
        labs.kill(self.root, host, part, signal_named(str(signal)))

    def start(self, host, *daemon):
        self.lab("start", host, *daemon)

    def cut(self, a, b):
        self.lab("cut", a, b)

    def heal(self):
        self.lab("heal")

    def status(self):
        return labs.status(self.root)

    def pids(self):
        """{"h1": {"lim": pid, "lbm": pid, "keeper": pid}, …}, with None for a daemon that is
        dead."""
        return {
            row["name"]: {
                part: entry["pid"] if entry["state"] != "dead" else None
                for part, entry in row["daemons"].items()
            }
            for row in self.status()["hosts"]
        }

    # Waiting and checking

    def wait_until(self, predicate, what, timeout_s=90.0, see=None):
        """Waits for `predicate()` to be true and returns its value.

        An exception counts as "not yet". A failure shows the last value, `see()` if given, and the
        logs.
        """
        try:
            return wait_until(predicate, what, timeout_s, see)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.logs()}") from None

    def logs(self, lines=8):
        """The last lines of the daemons' logs."""
        parts = []
        for host in self.hosts:
            for daemon in DAEMONS:
                tail = processes.tail(self.paths(host).log(daemon), lines)
                parts += [f"--- {host} {daemon}", *tail]
        return "\n".join(parts)

    def processes(self):
        return processes.find(self.root)

    def jobs_alive(self):
        """The processes of jobs, however they were started."""
        return [found for found in self.processes() if found.part == "job"]

    def assert_nothing_left(self):
        """Checks that no process, cgroup or file of the lab is left."""
        assert_nothing_left(self.root)


def assert_nothing_left(root):
    left = processes.find(root)
    assert not left, f"processes left: {[(p.process.pid, p.host, p.part) for p in left]}"
    groups = cgroups.find(cgroup_name(root))
    assert not groups, f"cgroups left: {groups}"
    files = list(root.iterdir()) if root.exists() else []
    assert not files, f"files left: {files}"


def close(process):
    """Ends a process and closes its pipes: a leaked pipe causes a warning in some later test."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def wait_until(predicate, what, timeout_s=90.0, see=None):
    """`Lab.wait_until`, without a lab."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        began_s = time.monotonic()
        try:
            last = predicate()
            if last:
                return last
        except Exception as problem:  # whatever it is, it is the last thing seen
            last = problem
        now_s = time.monotonic()
        if now_s > deadline_s:
            seen = f"; it shows {see()!r}" if see else ""
            raise AssertionError(f"{what}: not within {timeout_s:g} s; last seen: {last!r}{seen}")
        time.sleep(max(POLL_S, now_s - began_s))  # polling leaves half of a processor free
