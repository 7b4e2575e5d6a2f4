"""What a lab consists of: addresses, each host's files, the text of its lbd.toml and scripts. Pure.

DIR/lab.json        the record (written before each thing is made, so that `down` finds it)
DIR/key             the cluster's secret, 0600; with TLS each host has state/tls instead
DIR/hK/lbd.toml     the host's configuration
DIR/hK/run, state   its runtime and state directories; run/*.log are the daemons' logs
DIR/hK/enter        runs a command inside hK; DIR/hK/bin/ has lbrun and lbctl that use it
"""

import hashlib
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lbd.config.load import toml_value
from lbd.config.schema import ALGORITHMS, Config
from lbd.errors import ConfigError
from lbd.local.own_lab import MADE_BY
from lbd.text.spelling import hint

HOSTS_MAX = 254  # one byte of an address, without 0 and 255
SOCKET_PATH_MAX = 107  # length of sockaddr_un's path without its closing NUL
DAEMONS = ("lim", "lbm", "dispatcher", "metrics")  # the last two only where they are wanted
INSIDE = "LBD_LAB_INSIDE"  # the lab's directory, in the environment of commands that entered a host
ISOLATIONS = ("auto", "none", "namespaces")

Scalar = str | int | float | bool | tuple[str | float, ...]
Tables = list[dict[str, Scalar]]
Sections = dict[str, dict[str, Scalar | Tables]]

# Only the lab can set these correctly: an override would break them, not tune them.
RESERVED = {
    "cluster.hosts", "cluster.join", "host.name", "host.address", "host.runtime_dir",
    "host.state_dir", "security.key_file",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostPaths:
    """The paths of one host's files."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "lbd.toml"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def enter(self) -> Path:
        return self.root / "enter"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    def log(self, part: str) -> Path:
        return self.run / f"{part}.log"

    def socket(self, daemon: str) -> Path:
        return self.run / f"{daemon}.sock"


@dataclass(frozen=True, slots=True)
class Plan:
    """A lab as the command line asked for it, with all defaults filled in."""

    root: Path
    hosts: tuple[str, ...]
    isolate: str  # none | namespaces
    subnet: str  # "127.x.y" or "10.x.y"; host hK is its address K
    cores: float  # usable cores of a host; 0 = the whole machine
    algorithm: str  # "" = the default
    settings: tuple[str, ...]  # section.key=value
    allow_root: bool
    private: tuple[str, ...] = ()  # directories that each host has to itself; namespaces only
    tls: bool = False  # with certificates; the authority is on the first host
    host_settings: tuple[str, ...] = ()  # hK:section.key=value

    def paths(self, host: str) -> HostPaths:
        return HostPaths(self.root / host)

    def address(self, host: str) -> str:
        return f"{self.subnet}.{self.hosts.index(host) + 1}"

    def daemons(self, host: str) -> tuple[str, ...]:
        """Returns the daemons in starting order."""
        texts = (*self.settings, *settings_of(self, host))
        given = {(section, key): value for section, key, value in map(parse_setting, texts)}
        leader, standby = given.get(("dispatch", "host")), given.get(("dispatch", "standby"), ())
        standbys = standby if isinstance(standby, tuple) else ()
        queue = ("dispatcher",) if leader and host in (leader, *standbys) else ()
        return (*DAEMONS[:2], *queue, *(("metrics",) if given.get(("metrics", "listen")) else ()))

    @property
    def has_queue(self) -> bool:
        return any("dispatcher" in self.daemons(host) for host in self.hosts)

    @property
    def key_file(self) -> Path:
        return self.root / "key"


def host_names(count: int) -> tuple[str, ...]:
    """Returns h1 … hN. Raises ConfigError if there are not enough addresses."""
    if not 1 <= count <= HOSTS_MAX:
        raise ConfigError(f"--hosts {count}: from 1 to {HOSTS_MAX}")
    return tuple(f"h{number}" for number in range(1, count + 1))


def check_root(root: Path, hosts: Sequence[str]) -> None:
    """Raises ConfigError if a Unix socket's path below this directory would be too long."""
    longest = HostPaths(root / hosts[-1]).socket("keeper")
    if len(bytes(longest)) > SOCKET_PATH_MAX:
        room = SOCKET_PATH_MAX - (len(bytes(longest)) - len(bytes(root)))
        raise ConfigError(
            f"--dir {root}: too long for Unix sockets below it; at most {room} characters"
        )


def check_algorithm(name: str) -> None:
    if name and name not in ALGORITHMS:
        raise ConfigError(f"--algorithm {name!r} is not known; {hint(name, ALGORITHMS)}")


def check_private(private: Sequence[Path], isolate: str, shared: Mapping[str, Path]) -> None:
    """Raises ConfigError. `shared`: the files that every host must still see, by purpose."""
    for place in private:
        if isolate != "namespaces":
            raise ConfigError(f"--private {place}: needs hosts in namespaces: "
                              "run it as root, without --isolate none")  # fmt: skip
        for what, path in shared.items():
            if path.is_relative_to(place):
                raise ConfigError(f"--private {place}: {what} is in it ({path})")


def choose_subnet(isolate: str, rng: random.Random) -> str:
    """Returns a random /24, of loopback or of the private 10/8 that only the lab's hosts see."""
    first = 127 if isolate == "none" else 10
    return f"{first}.{rng.randint(1, 254)}.{rng.randint(0, 254)}"


def share_of_machine(machine_cores: float, hosts: int) -> float:
    """Returns the cores of a namespaces host when none were specified."""
    return max(0.5, round(machine_cores / hosts, 2))


def cgroup_name(root: Path) -> str:
    """Returns the lab's cgroup name, derived from its directory alone, so that it is found again
    even without lab.json."""
    return "lbd-lab-" + hashlib.sha256(bytes(root)).hexdigest()[:10]


def parse_setting(text: str) -> tuple[str, str, Scalar]:
    """Splits "section.key=value". A value that is not valid TOML is taken as an unquoted string.

    Raises ConfigError.
    """
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise ConfigError(f"--set {text!r}: must be section.key=value, like lim.algorithm=LOWEST")
    if f"{section}.{key}" in RESERVED:
        raise ConfigError(f"--set {section}.{key}: the lab sets it for each host")
    parsed = toml_value(value.strip())
    if isinstance(parsed, list) and all(type(item) in (str, int, float) for item in parsed):
        return section, key, tuple(parsed)
    return section, key, parsed if isinstance(parsed, str | int | float | bool) else value


def settings_of(plan: Plan, host: str) -> list[str]:
    """Returns the settings for one host alone."""
    own = f"{host}:"
    return [text.removeprefix(own) for text in plan.host_settings if text.startswith(own)]


def check_host_settings(texts: Sequence[str], hosts: Sequence[str]) -> None:
    """Raises ConfigError."""
    for text in texts:
        host, _, setting = text.partition(":")
        if host not in hosts:
            raise ConfigError(
                f"--host-set {text!r}: must be HOST:section.key=value, like "
                f'{hosts[-1]}:host.features=["big"]'
            )
        parse_setting(setting)


def host_sections(plan: Plan, host: str) -> Sections:
    """Returns the host's configuration: what the lab needs, then the user's settings."""
    paths = plan.paths(host)
    sections: Sections = {
        "cluster": {"name": f"lab-{cgroup_name(plan.root)[-10:]}"},
        "host": {
            "name": host,
            "address": plan.address(host),
            "runtime_dir": str(paths.run),
            "state_dir": str(paths.state),
            "speed": 1.0,  # measured side by side, hosts of one machine would differ
        },
        # A lab made by root is for trying things out: its daemons run as root.
        "daemons": {"user": "root"},
        "load": {},
        "lim": {},
        "lbm": {},
        # All hosts are this machine, so its users may run commands on each of them.
        "stage": {"root": str(paths.state / "stage")},
        "users": {"allow_root": plan.allow_root, "allow": ("*",)},
        "admin": {"hosts": ("*",)},  # the whole lab belongs to one person
        "security": {},
    }
    if not plan.tls:
        sections["security"]["key_file"] = str(plan.key_file)
    if plan.cores:
        sections["host"]["cores"] = plan.cores
    if plan.isolate == "none":
        sections["load"]["scope"] = "jobs"
    if plan.algorithm:
        sections["lim"]["algorithm"] = plan.algorithm
    for setting in (*plan.settings, *settings_of(plan, host)):
        section, key, value = parse_setting(setting)
        sections.setdefault(section, {})[key] = value
    defaults = Config()
    lim_port = sections["lim"].get("port", defaults.lim.port)
    lbm_port = sections["lbm"].get("port", defaults.lbm.port)
    sections["cluster"]["hosts"] = [
        {"name": name, "address": plan.address(name), **_ports(lim_port, lbm_port)}
        for name in plan.hosts
    ]
    return sections


def _ports(lim_port: Scalar | Tables, lbm_port: Scalar | Tables) -> dict[str, Scalar]:
    given = {"lim_port": lim_port, "lbm_port": lbm_port}
    return {name: port for name, port in given.items() if isinstance(port, int)}


def toml(sections: Mapping[str, Mapping[str, Scalar | Tables]]) -> str:
    """Returns the sections as text, each plain key at the start of its own line."""
    import tomlkit  # imports much, and only `up` needs it

    given = {section: values for section, values in sections.items() if values}
    return f"{MADE_BY}\n\n{tomlkit.dumps(given)}"


def owner_only(root: Path, host: str) -> str:
    """Returns why another user may not enter, and how root acts there as that user."""
    enter = f"lbd lab exec {host} --dir {shlex.quote(str(root))} -- runuser -u USER -- COMMAND"
    return f"only the lab's owner may enter; there as another user: `{enter}`, typed by root"


@dataclass(frozen=True, slots=True)
class Entrance:
    """How a process enters a host: its cgroups, and the process whose namespaces it joins."""

    cgroups: tuple[str, ...] = ()
    pid: int | None = None  # PID 1 of the host; None without namespaces

    def steps(self, python: str, program: Path, mode: Sequence[str] = (), denied: str = "") -> str:
        """Returns the shell text that becomes "$@". `denied`: said to users who may not enter.

        It joins the cgroups first, while their paths are still those outside. nsenter itself
        neither forks (-F) nor passes signals on; `enter.py` does both. Without namespaces nobody
        needs to stand in between, and each signal reaches whom it would reach without us; only what
        is no command is left to `enter.py`, which says so.
        """
        lists = [shlex.quote(f"{group}/cgroup.procs") for group in self.cgroups]
        lines = [f"echo 0 > {processes}" for processes in lists]
        if lists:
            line = shlex.quote(f"lbd lab: {denied}")
            first = lists[0]
            lines.insert(
                0, f"[ -w {first} ] || [ ! -e {first} ] || {{ echo {line} >&2; exit 125; }}"
            )
        words = [python, "-I", "-S", str(program), *mode]
        if self.pid is None and not mode:
            lines.append(
                'case $1 in */*) [ -f "$1" ] && [ -x "$1" ];; *) command -v -- "$1";; esac'
                ' >/dev/null && exec "$@"'
            )
        elif self.pid is not None:
            words = ["nsenter", "-F", "-t", str(self.pid), "-m", "-u", "-n", "-p", "--", *words]
        given = '"$@"' if mode else '"$PWD" "$@"'
        return "\n".join([*lines, f"exec {shlex.join(words)} {given}"])


def keeping(python: str, program: Path) -> str:
    """Returns shell text that puts `env` in front of "$@" if the environment has variables that a
    shell drops because their names are not valid in it (A.B=1)."""
    odd = shlex.join([python, "-I", "-S", str(program), "--odd"])
    return (
        "if LC_ALL=C grep -qz '^[^=]*[^=A-Za-z0-9_]\\|^[0-9]' /proc/$$/environ 2>/dev/null; then\n"
        f'    eval "set -- /usr/bin/env -- $({odd} $$) "\'"$@"\'\nfi\n'
    )


def enter_script(host: str, root: Path, steps: str, kept: str) -> str:
    """Returns DIR/hK/enter: `enter COMMAND…` runs it inside hK, in the caller's directory."""
    return (
        f"#!/bin/sh\n# made by `lbd lab`: runs a command inside {host}\n{kept}"
        f"export {INSIDE}={shlex.quote(str(root))}\n{steps}\n"
    )


def program_script(host: str, root: Path, steps: str, kept: str, program: str) -> str:
    """Returns DIR/hK/bin/PROGRAM: the installed program, run inside hK.

    A job that came from hK has this directory in its PATH wherever it runs. Such a job is inside a
    host already, and runs the program there.
    """
    return (
        f"#!/bin/sh\n# made by `lbd lab`: runs this program inside {host}\n"
        f'set -- {shlex.quote(program)} "$@"\n{kept}'
        f'[ "${INSIDE}" = {shlex.quote(str(root))} ] && exec "$@"\n'
        f"export {INSIDE}={shlex.quote(str(root))}\n{steps}\n"
    )


def powered_off_script(host: str, root: Path) -> str:
    """Returns the script that replaces the others while the host is off."""
    start = f"lbd lab start {host} --dir {shlex.quote(str(root))}"
    line = shlex.quote(f"lbd lab: {host} is powered off; {start} brings it back")
    return f"#!/bin/sh\necho {line} >&2\nexit 125\n"


def exports(variables: Mapping[str, str], path_first: Sequence[str]) -> str:
    """Returns shell text for `eval "$(lbd lab env hK)"`."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    if path_first:
        joined = ":".join(shlex.quote(entry) for entry in path_first)
        lines.append(f'export PATH={joined}:"$PATH"')
    return "\n".join(lines) + "\n"
