"""A machine of its own with the package installed and systemd as its first process.

Its root is this machine's, seen through an overlay that keeps every change in memory, so installing
there changes nothing here; its process ids, network and cgroups are its own. So the units run under
the systemd that they are written for, at their real paths, and a real `dpkg -i` installs them.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil

from tests.live.cluster import wait_until

SYSTEMD = "/lib/systemd/systemd"
BOOT = """
set -e
cd "$1"
mount --make-rprivate /
mount -t tmpfs -o size=1g tmpfs disk
mkdir disk/upper disk/work disk/root
mount -t overlay -o lowerdir=/,upperdir=disk/upper,workdir=disk/work overlay disk/root
touch console
cd disk/root
cp "$2" lbd.deb
cp "$3" first.deb
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
touch dev/console
mount --bind "$1/console" dev/console
ip link set lo up
rm -f usr/sbin/policy-rc.d
chroot . dpkg -i --no-triggers --force-unsafe-io first.deb >"$1/dpkg.log" 2>&1
mkdir -p run/systemd/system
cat >run/systemd/system/boot.target <<END
[Unit]
Description=What this machine runs
Requires=systemd-journald.service lbd.target
After=systemd-journald.service lbd.target
END
export container=test
exec chroot . /lib/systemd/systemd --system --unit=boot.target --show-status=0
"""


def why_not():
    """What this host lacks to run a machine, or ""."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("unshare", "nsenter", "ip", "dpkg", "systemctl"):
        if shutil.which(program) is None:
            return f"no {program}"
    if not os.access(SYSTEMD, os.X_OK):
        return f"no {SYSTEMD}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "no overlay file system"
    return "" if unified() else "no cgroup v2"


def unified():
    """The mount point of cgroup v2, or None."""
    rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return next((Path(row[1]) for row in rows if row[2] == "cgroup2"), None)


class Machine:
    def __init__(self, root, package, first=None):
        """`first`: another package to start with; `package` is /lbd.deb in any case."""
        self.root = root
        (root / "disk").mkdir()
        (root / "boot").write_text(BOOT)
        self._group = unified() / root.name
        self._group.mkdir()
        # It joins its group before it has namespaces of its own, so that it sees only that group.
        enter = f'echo $$ >"{self._group}/cgroup.procs"; exec "$@"'
        unshare = ("unshare", "-m", "-p", "-n", "-u", "-i", "-C", "--fork", "--kill-child")
        boot = ("sh", root / "boot", root, package, first or package)
        self._unshare = subprocess.Popen(
            ["sh", "-c", enter, "sh", *unshare, *boot],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._first = None

    def wait_until_up(self):
        """Waits until everything has started; the first process is systemd then."""

        def first():
            (child,) = psutil.Process(self._unshare.pid).children()
            return child.pid if child.exe().endswith("systemd") else 0

        self._first = wait_until(first, "systemd runs", 60, self.said)
        wait_until(lambda: self.run("systemctl", "is-active", "boot.target").returncode == 0,
                   "all is started", 60, self.said)  # fmt: skip
        return self

    def said(self):
        logs = [(self.root / name) for name in ("dpkg.log", "console")]
        text = "".join(log.read_text(errors="replace") for log in logs if log.exists())
        if self._unshare.poll() is not None:
            text += self._unshare.stdout.read()
        return text[-4000:]

    def run(self, *command, check=False, timeout=40, **options):
        """Runs a command inside, as root."""
        process = self.popen(*command, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()  # closes its pipes
            raise
        if check and process.returncode != 0:
            raise AssertionError(f"{command}: {process.returncode} {out}{err}")
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def popen(self, *command, **options):
        """Starts a command inside in the background; the caller waits for it."""
        enter = ("nsenter", "-t", str(self._first), "-m", "-p", "-n", "-u", "-i", "-C", "-r", "-w")
        return subprocess.Popen(
            [*enter, *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"},
            **options,
        )  # fmt: skip

    def receive(self, file):
        """Copies a file to the machine's root directory."""
        shutil.copy(file, f"/proc/{self._first}/root")

    def show(self, unit, name):
        return self.run("systemctl", "show", "-P", name, unit, check=True).stdout.strip()

    def down(self):
        """Kills the first process, and with it everything in its process namespace."""
        if self._first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._first, signal.SIGKILL)
        self._unshare.kill()
        self._unshare.wait()
        self._unshare.stdout.close()
        wait_until(self._remove_group, f"{self._group} is empty", 15)
        shutil.rmtree(self.root)

    def _remove_group(self):
        for path in sorted(self._group.rglob("*/"), reverse=True):
            path.rmdir()
        self._group.rmdir()
        return True
