"""Test suites of shells, run through a shell and through lbsh, and compared.

The question is not whether the shell passes its tests, but whether lbsh gives the same as the plain
shell. The scripts are busybox's (for ash and for hush) and bash's own.
"""

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 20
PARALLEL = 4
LOCALE = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")
# busybox's own runner takes this from the build's configuration: all features are there.
FEATURES = {"CONFIG_FEATURE_FANCY_ECHO": "y", "CONFIG_LFS": "y"}


@dataclass(frozen=True, slots=True)
class Script:
    directory: Path  # below the suite's root
    name: str

    def __str__(self) -> str:
        return f"{self.directory}/{self.name}"


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int | None  # None: it did not end in time
    output: bytes


def busybox_scripts(tree: Path) -> list[Script]:
    return find(tree, ("shell/ash_test/ash-*/*.tests", "shell/hush_test/hush-*/*.tests"))


def bash_scripts(tree: Path) -> list[Script]:
    return find(tree, ("tests/*.tests",))


def find(tree: Path, patterns: tuple[str, ...]) -> list[Script]:
    paths = sorted(path for pattern in patterns for path in tree.glob(pattern))
    return [Script(path.parent.relative_to(tree), path.name) for path in paths]


def build_tools(busybox: Path, into: Path) -> None:
    """Builds the three small programs that the scripts of both suites call."""
    into.mkdir()
    for name in ("recho", "zecho", "printenv"):
        source = busybox / f"shell/ash_test/{name}.c"
        subprocess.run(["gcc", "-w", "-O1", "-o", into / name, source], check=True, timeout=60)


class Run:
    """A copy of a suite's tree for one way of running it, so that the two ways do not collide."""

    def __init__(
        self, tree: Path, tools: Path, root: Path, shell: str, environment: dict[str, str]
    ) -> None:
        self.shell = shell
        self.root = root
        shutil.copytree(tree, root, symlinks=True)
        kept = {name: text for name, text in os.environ.items() if name not in LOCALE}
        self.environment = kept | FEATURES | environment
        self.environment["THIS_SH"] = shell
        path = environment.get("PATH", os.environ["PATH"])
        self.environment["PATH"] = f"{tools}:{path}"

    def outcome(self, script: Script) -> Outcome:
        # Each has its own copy: some scripts remove *.tmp or core files, also those of a script
        # that runs beside them.
        shared = self.root / script.directory
        directory = shared.with_name(f"{shared.name}-{script.name}")
        # Another program copies: there are hundreds of scripts and hundreds of files in the tree.
        subprocess.run(["cp", "-a", shared, directory], check=True)
        try:
            return self._outcome_in(directory, script)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _outcome_in(self, directory: Path, script: Script) -> Outcome:
        home = directory / "home"
        home.mkdir(exist_ok=True)
        environment = self.environment | {"PWD": str(directory), "TMPDIR": str(home)}
        process = subprocess.Popen(
            [self.shell, f"./{script.name}"], cwd=directory, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
            status: int | None = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            output, status = b"", None  # how far it had come by then means nothing
        names = (str(self.root), self.shell, self.environment.get("LBD_SHELL", self.shell))
        for name in names:
            output = output.replace(name.encode(), b"<>")
        return Outcome(status, output)


def outcomes(run: Run, scripts: list[Script]) -> dict[Script, Outcome]:
    with ThreadPoolExecutor(PARALLEL) as pool:
        return dict(zip(scripts, pool.map(run.outcome, scripts), strict=True))
