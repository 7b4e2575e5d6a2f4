"""The rival: `ssh` through a warm ControlMaster to an sshd of our own on loopback.

Keys and configuration are made for it and thrown away; ~/.bashrc, which bash sources for every ssh
command, is empty in a mount namespace that only this sshd sees; no PAM, no DNS. That is ssh at its
best.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, descendants, favour, wait_for

SERVER = """ListenAddress 127.0.0.1
Port {port}
HostKey {d}/host
AuthorizedKeysFile {d}/user.pub
PidFile {d}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 200
MaxStartups 200
UseDNS no
PrintMotd no
"""
CLIENT = """Host warm
  HostName 127.0.0.1
  Port {port}
  IdentityFile {d}/user
  IdentitiesOnly yes
  StrictHostKeyChecking no
  UserKnownHostsFile {d}/known
  LogLevel ERROR
  BatchMode yes
  ControlPath {d}/master
  ControlMaster no
"""
PRIVILEGE_SEPARATION = Path("/run/sshd")
HIDE_BASHRC = '[ ! -e "$HOME/.bashrc" ] || mount --bind /dev/null "$HOME/.bashrc"; exec "$@"'


class WarmSsh:
    """A context manager: the connection is up inside the block and gone after it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[subprocess.Popen[bytes]] = []
        self._made_run = False

    def command(self, *argv: str) -> list[str]:
        return [found("ssh"), "-F", str(self._directory / "config"), "warm", *argv]

    def __enter__(self) -> "WarmSsh":
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        if os.geteuid():
            raise CannotMeasureError("warm ssh: an sshd of our own needs root")
        directory = self._directory
        directory.mkdir(mode=0o700)
        for name in ("host", "user"):
            keygen = [found("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", directory / name]
            subprocess.run(keygen, check=True)
        port = free_port()
        (directory / "sshd_config").write_text(SERVER.format(port=port, d=directory))
        (directory / "config").write_text(CLIENT.format(port=port, d=directory))
        if not PRIVILEGE_SEPARATION.exists():
            PRIVILEGE_SEPARATION.mkdir(mode=0o755)
            self._made_run = True
        sshd = [found("sshd"), "-D", "-f", str(directory / "sshd_config")]
        self._spawn([found("unshare"), "--mount", "sh", "-c", HIDE_BASHRC, "sh", *sshd])
        wait_for(
            lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, 10, "sshd"
        )
        self._spawn([*self.command()[:-1], "-M", "-N", "-o", "ControlMaster=yes", "warm"])
        wait_for((directory / "master").exists, 10, "the ssh master")
        for process in self._started:
            for pid in descendants(process.pid):
                favour(pid)

    def _spawn(self, argv: list[str]) -> None:
        with (self._directory / "log").open("ab") as log:
            process = subprocess.Popen(
                argv, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._started.append(process)

    def _stop(self) -> None:
        pids = [pid for process in self._started for pid in descendants(process.pid)]
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._started.clear()
        if self._made_run:
            PRIVILEGE_SEPARATION.rmdir()


def found(program: str) -> str:
    path = shutil.which(program, path=ENVIRONMENT["PATH"])
    if path is None:
        raise CannotMeasureError(f"{program} is not installed")
    return path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
