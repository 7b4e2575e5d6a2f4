"""The subject of the measurements: this source tree, installed into a directory of its own, and
labs made of it. A later edit of a file does not change what is measured."""

import compileall
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from tests.bench.measure import ENVIRONMENT, CannotMeasureError, Others, descendants, favour
from tests.bench.warm_ssh import WarmSsh

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "lbd-b-"  # short: the paths of Unix sockets below it must fit in 107 bytes
LAB_TIMEOUT_S = 90


class Installation:
    """bin/python3, bin/lbrun-python, bin/lbrun and lib/…/site-packages/lbd, as a wheel would
    install them. `lbrun` here is the Python client, bare as the front starts it; `front()` is the
    front."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.python = root / "bin/python3"
        self.lbrun = root / "bin/lbrun-python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = root / "lib" / version / "site-packages"
        self.python.parent.mkdir(parents=True)
        packages.mkdir(parents=True)
        interpreter = Path(sys.executable).resolve()
        self.python.symlink_to(interpreter)
        (root / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\n")
        shutil.copytree(ROOT / "lbd", packages / "lbd", ignore=shutil.ignore_patterns("*.pyc"))
        # The dependencies of lbd come from the Python that runs this.
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
        compileall.compile_dir(str(packages / "lbd"), quiet=1)
        keeper = packages / "lbd/keeper"
        subprocess.run([ROOT / "deploy/compile", keeper / "spare.c", keeper / "spare"], check=True)
        if shutil.which("cc") and not (keeper / "spare").exists():
            raise CannotMeasureError("keeper/spare was not compiled")
        _, _, code = (ROOT / "deploy/bin/lbrun").read_text().partition("\n")
        self.lbrun.write_text(f"#!{self.python} -IS\n{code}")
        self.lbrun.chmod(0o755)
        said = subprocess.run([self.lbrun, "--version"], capture_output=True, text=True, check=True)
        assert said.stdout.startswith("lbrun "), said  # an empty script would be fast, too

    def front(self) -> Path:
        """The compiled front. Raises CannotMeasureError without a compiler."""
        program = self.root / "bin/lbrun"
        if not program.exists():
            source = ROOT / "lbd/client/c/lbrun.c"
            subprocess.run([ROOT / "deploy/compile", source, program], check=True)
        if not program.exists():
            raise CannotMeasureError("no C compiler")
        return program

    def lbsh(self) -> Path:
        """The compiled lbsh, whose shims are links to the compiled front. Raises as `front`."""
        self.front()
        program = self.root / "bin/lbsh"
        client = self.root / "bin/lbsh-python"
        if not program.exists():
            _, _, code = (ROOT / "deploy/bin/lbsh").read_text().partition("\n")
            client.write_text(f"#!{self.python} -IS\n{code}")
            client.chmod(0o755)
            source = ROOT / "lbd/client/c/lbsh.c"
            subprocess.run([ROOT / "deploy/compile", source, program], check=True)
        return program

    def lbd(self, *words: object) -> list[str]:
        return [str(self.python), "-P", "-m", "lbd.cli.main", *map(str, words)]


class Runnable(Protocol):
    def lbd(self, *words: object) -> list[str]: ...


class Lab:
    """A lab that is up; `environment("h1")` makes a client act from h1."""

    def __init__(self, installation: Runnable, root: Path) -> None:
        self._installation = installation
        self.root = root

    def up(self, hosts: int, *settings: str, cores: float = 0.0, tls: bool = False) -> None:
        """With `cores`: in namespaces, each host with a quota of so many."""
        if not any(setting.startswith("dispatch.host=") for setting in settings):
            settings = (*settings, "dispatch.host=")  # no dispatcher unless asked for
        sets = [word for setting in settings for word in ("--set", setting)]
        how = ("namespaces", "--cpus", cores) if cores else ("none",)
        self._lab("up", "--hosts", hosts, "--isolate", *how, *sets, *["--tls"] * tls)
        for pid in self.daemons():
            favour(pid)

    def start(self, host: str, daemon: str) -> None:
        self._lab("start", host, daemon)

    def down(self) -> None:
        self._lab("down")

    def environment(self, host: str) -> dict[str, str]:
        return ENVIRONMENT | {"LBD_CONFIG": str(self.root / host / "lbd.toml")}

    def socket(self, host: str, daemon: str) -> Path:
        return self.root / host / "run" / f"{daemon}.sock"

    def pids(self, host: str) -> dict[str, int]:
        """The pids of lim, lbm and keeper of one host."""
        for row in json.loads(self._lab("status", "--json"))["hosts"]:
            if row["name"] == host:
                return {part: entry["pid"] for part, entry in row["daemons"].items()}
        raise CannotMeasureError(f"the lab has no host {host}")

    def daemons(self) -> list[int]:
        rows = json.loads(self._lab("status", "--json"))["hosts"]
        pids = [entry["pid"] for row in rows for entry in row["daemons"].values() if entry["pid"]]
        return sorted({found for pid in pids for found in descendants(pid)})

    def _lab(self, *words: object) -> str:
        argv = self._installation.lbd("lab", *words, "--dir", self.root)
        result = subprocess.run(
            argv, env=ENVIRONMENT, text=True, capture_output=True, timeout=LAB_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if result.returncode:
            raise CannotMeasureError(f"lbd lab {words[0]}: {result.stderr.strip()}")
        return result.stdout


@dataclass
class Stage:
    """What the figures are measured on; the costly parts are made when first asked for."""

    directory: Path
    installation: Installation
    others: Others
    rng: Random
    runs: int  # samples of each thing
    quick: bool
    stack: ExitStack
    _lab: Lab | None = None
    _tls_lab: Lab | None = None
    _ssh: WarmSsh | None = None

    def lab(self) -> Lab:
        """Two hosts, h1 and h2, shared by the figures that only run commands."""
        if self._lab is None:
            self._lab = self.stack.enter_context(self.new_lab("lab", 2))
        return self._lab

    def tls_lab(self) -> Lab:
        """The same with certificates, as real hosts have."""
        if self._tls_lab is None:
            self._tls_lab = self.stack.enter_context(self.new_lab("tls", 2, tls=True))
        return self._tls_lab

    @contextmanager
    def new_lab(
        self, name: str, hosts: int, *settings: str, cores: float = 0.0, tls: bool = False,
        installation: Runnable | None = None,
    ):  # fmt: skip
        lab = Lab(installation or self.installation, self.directory / name)
        lab.root.mkdir()
        try:
            lab.up(hosts, *settings, cores=cores, tls=tls)
            yield lab
        finally:
            lab.down()

    def end_shared_lab(self) -> None:
        """Ends the shared lab: nothing else may run beside what is measured at rest."""
        self.stack.close()
        self._lab = self._tls_lab = self._ssh = None

    def ssh(self) -> WarmSsh:
        if self._ssh is None:
            self._ssh = self.stack.enter_context(WarmSsh(self.directory / "ssh"))
        return self._ssh

    def interpreter(self) -> str:
        return os.path.realpath(sys.executable)


@contextmanager
def set_up(runs: int, quick: bool, seed: int):
    directory = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    others = Others()
    try:
        with ExitStack() as stack:
            installation = Installation(directory / "i")
            yield Stage(directory, installation, others, Random(seed), runs, quick, stack)
    finally:
        others.leave()
        shutil.rmtree(directory, ignore_errors=True)
