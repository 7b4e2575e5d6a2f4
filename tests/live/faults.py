"""Faults to plant in a lab of two hosts, h1 and h2, and to take back again.

Each is a context manager: the fault exists inside its block. It yields additions to the environment
or to the command line of `lbctl doctor` on h1. Its files go to `lab.scratch`.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sysconfig
from pathlib import Path

import lbd
from lbd.process.self_start import command
from tests.live.cluster import wait_until

SKEW_S = 100
SKEWED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, at);
    if (id == CLOCK_REALTIME) at->tv_sec += SKEW_S;
    return status;
}
"""


def config_of(lab, host="h1"):
    return lab.paths(host).config


def write_config(lab, change):
    """A changed copy of h1's configuration, for lbctl alone."""
    path = lab.scratch / "changed.toml"
    path.write_text(change(config_of(lab).read_text()))
    return {"config": path}


@contextlib.contextmanager
def malformed(lab):
    yield write_config(lab, lambda text: text + "\nwrong = [")


@contextlib.contextmanager
def misspelt(lab):
    yield write_config(lab, lambda text: text.replace("[host]", "[host]\nadress = 1", 1))


@contextlib.contextmanager
def not_ours(lab):
    """An address of the documentation's network, which no host has."""
    own = lab.record.plan.address("h1")
    yield write_config(lab, lambda text: text.replace(f'"{own}"', '"192.0.2.7"'))


@contextlib.contextmanager
def older_users(lab):
    """The keeper was started before [users] was changed."""
    yield write_config(lab, lambda text: re.sub(r"\nallow = \[.*?\]", '\nallow = ["ann"]', text))


@contextlib.contextmanager
def no_dispatcher(lab):
    """The configuration names a dispatcher, and none runs."""
    named = '[dispatch]\nhost = "h1"\n'
    yield write_config(lab, lambda text: re.sub(r"\[dispatch\]\n(host = .*\n)?", named, text))


@contextlib.contextmanager
def mode(path, bits):
    before = path.stat().st_mode & 0o7777
    path.chmod(bits)
    try:
        yield {}
    finally:
        path.chmod(before)


def open_configuration(lab):
    return mode(config_of(lab), 0o666)


def open_directory(lab):
    return mode(lab.paths("h1").run, 0o777)


@contextlib.contextmanager
def mounted(path, *options):
    subprocess.run(["mount", *options, path], check=True)
    try:
        yield {}
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


@contextlib.contextmanager
def full_disk(lab):
    state = lab.paths("h1").state
    with mounted(state, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        with contextlib.suppress(OSError), (state / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65536))
        yield {}


@contextlib.contextmanager
def read_only(lab):
    state = lab.paths("h1").state
    with mounted(state, "--bind", "-o", "ro", state):
        subprocess.run(["mount", "-o", "remount,ro,bind", state], check=True)
        yield {}


# Daemons


def pid_of(lab, host, part):
    return lab.pids()[host][part]


@contextlib.contextmanager
def ended(lab, host, daemon, number):
    lab.kill(host, daemon, number)
    wait_until(lambda: not lab.pids()[host][daemon], f"{daemon} of {host} ends")
    try:
        yield {}
    finally:
        restore(lab, host, daemon)


def restore(lab, host, daemon):
    lab.start(host, daemon)
    lab.wait_until(lambda: healthy(lab), "the lab is well again", 20)


def healthy(lab):
    status = lab.ask("h1", "lim", "status")
    lab.ask("h1", "lbm", "status")
    asked = lab.ask("h1", "lim", "doctor", timeout_s=20.0)
    if not all(peer["reachable"] for peer in asked["peers"]):
        return False  # gRPC pauses before it tries again
    return all(row["state"] == "up" for row in status["hosts"]) and all(
        row["slots"]["total"] for row in status["hosts"]
    )


def lim_dead(lab):
    return ended(lab, "h1", "lim", "TERM")


def lim_killed(lab):
    return ended(lab, "h1", "lim", "KILL")


def lbm_dead(lab):
    return ended(lab, "h1", "lbm", "TERM")


def peer_lim_dead(lab):
    return ended(lab, "h2", "lim", "KILL")


def peer_lbm_dead(lab):
    return ended(lab, "h2", "lbm", "TERM")


@contextlib.contextmanager
def stopped(lab, part):
    pid = pid_of(lab, "h1", part)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield {}
    finally:
        os.kill(pid, signal.SIGCONT)
        lab.wait_until(lambda: healthy(lab), "the lab is well again", 20)


def lim_hangs(lab):
    return stopped(lab, "lim")


def keeper_hangs(lab):
    return stopped(lab, "keeper")


@contextlib.contextmanager
def no_keeper(lab):
    """The keeper is killed, and a process in its place never answers."""
    path, pids = lab.paths("h1").run / "keeper.sock", lab.pids()["h1"]
    os.kill(pids["lbm"], signal.SIGSTOP)
    os.kill(pids["keeper"], signal.SIGKILL)
    path.unlink(missing_ok=True)
    try:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path))
            silent.listen()
            os.kill(pids["lbm"], signal.SIGCONT)
            lab.wait_until(lambda: not lab.ask("h1", "lbm", "status")["keeper"], "no keeper")
            yield {}
    finally:
        lab.kill("h1", "lbm", "KILL")
        wait_until(lambda: not lab.pids()["h1"]["lbm"], "the LBM ends")
        restore(lab, "h1", "lbm")


@contextlib.contextmanager
def few_descriptors(lab):
    pid = pid_of(lab, "h1", "lim")
    subprocess.run(["prlimit", f"--pid={pid}", "--nofile=40:4096"], check=True)
    try:
        yield {}
    finally:
        subprocess.run(["prlimit", f"--pid={pid}", "--nofile=4096:4096"], check=True)


@contextlib.contextmanager
def second_lim(lab):
    """Another process listens where h1's LIM did, as a second daemon does whose locks were
    removed."""
    path = lab.paths("h1").run / "lim.sock"
    aside = path.with_name("lim.sock.aside")
    path.rename(aside)
    try:
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(path))
            other.listen()
            path.unlink()
            aside.rename(path)
            yield {}
    finally:
        if aside.exists():
            aside.rename(path)


@contextlib.contextmanager
def restarted(lab, host, daemon, *options, wrapper=(), **environment):
    """Restarts the daemon with other options than the lab uses."""
    lab.kill(host, daemon, "TERM")
    wait_until(lambda: not lab.pids()[host][daemon], f"{daemon} of {host} ends")
    log = lab.paths(host).log(daemon).open("ab")
    process = subprocess.Popen(
        [*wrapper, *command(daemon, "--config", str(config_of(lab, host)), *options)],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=lab.environment(host, **environment),
    )  # fmt: skip
    log.close()
    try:
        lab.wait_until(lambda: lab.ask(host, daemon, "status"), f"{daemon} answers", 20)
        lab.wait_until(lambda: lab.states("h1").get("h2") == "up", "h1 sees h2", 20)
        yield {}
    finally:
        process.terminate()
        process.wait(timeout=90)
        restore(lab, host, daemon)


def other_algorithm(lab):
    return restarted(lab, "h2", "lim", "--set", "lim.algorithm=LOWEST")


@contextlib.contextmanager
def wrong_clock(lab):
    with restarted(lab, "h2", "lim", LD_PRELOAD=str(clock_shim(lab, SKEW_S))) as more:
        yield more


def clock_shim(lab, skew_s):
    """A library that sets the clock of the process that loads it forward."""
    source, shim = lab.scratch / "skew.c", lab.scratch / "skew.so"
    source.write_text(SKEWED)
    compiler = ["gcc", "-shared", "-fPIC", f"-DSKEW_S={skew_s}", "-o", shim, source, "-ldl"]
    subprocess.run(compiler, check=True)
    return shim


@contextlib.contextmanager
def other_version(lab):
    """h2 runs an older release: this one, with its version number changed."""
    copy = copy_package(lab)
    init = copy / "lbd/__init__.py"
    init.write_text(init.read_text().replace(lbd.__version__, "0.0.9"))
    with restarted(lab, "h2", "lim", PYTHONPATH=str(copy)) as more:
        yield more


@contextlib.contextmanager
def not_compiled(lab):
    """The lbctl of an installation without compiled parts."""
    copy = copy_package(lab)
    (copy / "lbd/keeper/spare").unlink(missing_ok=True)
    yield {"environment": {"PYTHONPATH": str(copy)}}


def copy_package(lab):
    copy = lab.scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    installed = Path(sysconfig.get_path("purelib"), "lbd")
    shutil.copytree(installed, copy / "lbd", ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@contextlib.contextmanager
def not_delegated(lab):
    """An LBM, and so its keeper, that sees its cgroups but may not write them."""
    mounts = [row.split() for row in Path("/proc/mounts").read_text().splitlines()]
    groups = " ".join(row[1] for row in mounts if row[2].startswith("cgroup"))
    script = f'for m in {groups}; do mount -o remount,ro,bind "$m" || exit; done; exec "$@"'
    wrapper = ("unshare", "-m", "sh", "-c", script, "sh")
    with restarted(lab, "h1", "lbm", wrapper=wrapper) as more:
        yield more


@contextlib.contextmanager
def not_shared(lab):
    """h2 has another directory at the path where the doctor is called."""
    here = lab.scratch / "project"
    here.mkdir(exist_ok=True)
    script = f'mount -t tmpfs tmpfs "{here}" && exec "$@"'
    with restarted(lab, "h2", "lbm", wrapper=("unshare", "-m", "sh", "-c", script, "sh")):
        yield {"directory": here}


@contextlib.contextmanager
def cut(lab):
    lab.cut("h1", "h2")
    try:
        yield {}
    finally:
        lab.heal()
        lab.wait_until(lambda: healthy(lab), "the lab is well again", 20)


@contextlib.contextmanager
def drained(lab):
    lab.run("h1", "lbctl", "drain", "h2", check=True)
    try:
        yield {}
    finally:
        lab.run("h1", "lbctl", "undrain", "h2", check=True)
