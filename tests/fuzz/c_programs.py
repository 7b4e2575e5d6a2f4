"""Our C programs, built with the address and undefined-behaviour sanitizers, fed from a corpus."""

import array
import os
import shutil
import socket
import subprocess
from pathlib import Path

from lbd.local import frames

ROOT = Path(__file__).parents[2]
FLAGS = ("-U_FORTIFY_SOURCE", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:exitcode=99:abort_on_error=0", "PATH": "/usr/bin:/bin",
    "UBSAN_OPTIONS": "print_stacktrace=1:exitcode=99",
}  # fmt: skip
SECONDS = 20


def build(directory):
    """The three programs, or None without a compiler that has the sanitizers."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    clients, python = ROOT / "lbd/client/c", directory / "python-client"
    python.write_text("#!/bin/sh\nexit 77\n")
    python.chmod(0o755)
    client = f'-DPYTHON_CLIENT="{python}"'
    sources = {
        "lbrun": clients / "lbrun.c",
        "lbsh": clients / "lbsh.c",
        "spare": ROOT / "lbd/keeper/spare.c",
    }
    more = {"lbrun": [client], "lbsh": [client], "spare": []}
    for name, source in sources.items():
        words = [compiler, "-std=gnu11", "-O1", *FLAGS, *more[name], "-o", directory / name, source]
        if subprocess.run(words, capture_output=True).returncode != 0:
            return None
    return directory


def assert_sound(result, data):
    report = result.stderr if isinstance(result.stderr, bytes) else b""
    for sign in (b"AddressSanitizer", b"runtime error", b"LeakSanitizer"):
        assert sign not in report, f"{data!r}\n{report.decode(errors='replace')}"
    assert result.returncode != 99, f"{data!r}\n{report.decode(errors='replace')}"


def run(argv, environment=None, **options):
    return subprocess.run(
        argv, env={**ENVIRONMENT, **(environment or {})}, capture_output=True, timeout=SECONDS,
        stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


def spare_steps(programs, data):
    """Starts a spare as the keeper does, and gives it `data` as its steps."""
    keeper, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with keeper, theirs:
        nursery = subprocess.Popen(
            [programs / "spare", str(theirs.fileno())], env=ENVIRONMENT,
            pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        ours, spares = socket.socketpair()
        with ours, spares:
            rights = array.array("i", [spares.fileno()])
            keeper.sendmsg([b"n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            keeper.settimeout(SECONDS)
            assert len(keeper.recv(4)) == 4
            spares.close()
            null = os.open(os.devnull, os.O_RDWR)
            ours.settimeout(SECONDS)
            try:
                socket.send_fds(ours, [frames.pack(b"S", data)], [null, null, null])
                ours.shutdown(socket.SHUT_WR)
                while ours.recv(256):
                    pass
            except OSError:
                pass
            finally:
                os.close(null)
    _, report = nursery.communicate(timeout=SECONDS)
    assert_sound(subprocess.CompletedProcess([], 0, b"", report), data)


def lbsh_line(programs, data):
    """`lbsh -c` of any text, which C parses or leaves to the Python client (absent here)."""
    text = data.replace(b"\0", b"")
    assert_sound(run([programs / "lbsh", "-c", text], cwd="/"), data)


def front_config(programs, data):
    """Any text as lbd.toml; it names no LBM that exists."""
    path = programs / "lbd.toml"
    path.write_bytes(data)
    result = run([programs / "lbrun", "true"], {"LBD_CONFIG": str(path)}, cwd="/")
    assert_sound(result, data)
