"""What a wheel has besides Python: the compiled programs, manual pages, completion.

Every way to install lbd goes through here: `pip install`, deploy/setup, the packages, the image.
`lbrun` and `lbsh` are the compiled ones where there is a compiler, beside their Python clients;
without one the Python clients have these names, and the wheel is for every machine. Programs
without an interpreter are static: nothing ties them to a libc, so the wheel says that it is for
every Linux of this processor. With one (no static libraries here) it is for this system alone.
"""

import re
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CLIENTS = ("lbrun", "lbsh")
INTERPRETER = 3  # ELF: the type of the program header that names the dynamic loader
# No libc is asked for, so the oldest of each that pip knows of. PyPI takes these tags only.
ANY_LIBC = ("manylinux2014", "manylinux_2_17", "musllinux_1_1")


class Hook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict) -> None:
        self._made = TemporaryDirectory(prefix="lbd-wheel-")
        made, root = Path(self._made.name), Path(self.root)
        scripts = {name: compiled(root, f"lbd/client/c/{name}.c", made / name) for name in CLIENTS}
        spare = compiled(root, "lbd/keeper/spare.c", made / "spare", "-fPIE")
        for name, program in scripts.items():
            client = root / "deploy/bin" / name
            build_data["shared_scripts"][str(program or client)] = name
            if program:
                build_data["shared_scripts"][str(client)] = f"{name}-python"
        if spare and version != "editable":
            build_data["force_include"][str(spare)] = "lbd/keeper/spare"
        binaries = [program for program in (*scripts.values(), spare) if program]
        if binaries:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platforms(binaries)}"
        describe(root, made / "share")
        build_data["shared_data"][str(made / "share")] = "share"

    def finalize(self, *_: object) -> None:
        self._made.cleanup()


def compiled(root: Path, source: str, program: Path, *flags: str) -> Path | None:
    """The program, or None where it cannot be compiled."""
    subprocess.run([root / "deploy/compile", root / source, program, *flags], check=True)
    return program if program.exists() else None


def platforms(programs: list[Path]) -> str:
    system, _, machine = sysconfig.get_platform().partition("-")
    machine = re.sub(r"\W", "_", machine)
    if system == "linux" and all(is_static(program.read_bytes()) for program in programs):
        return ".".join(f"{libc}_{machine}" for libc in ANY_LIBC)
    return f"{system}_{machine}"


def is_static(program: bytes) -> bool:
    """Whether a 64-bit ELF program needs no dynamic loader, and so no library."""
    if program[4] != 2:
        return False
    order = "<" if program[5] == 1 else ">"
    (first,) = struct.unpack_from(f"{order}Q", program, 32)
    size, count = struct.unpack_from(f"{order}2H", program, 54)
    types = (struct.unpack_from(f"{order}I", program, first + size * n)[0] for n in range(count))
    return INTERPRETER not in types


def describe(root: Path, share: Path) -> None:
    """Manual pages and completion, from the programs' own parsers, which need what lbd does."""
    words = [sys.executable, "-B", root / "deploy/describe", share]
    made = subprocess.run(words, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        last = made.stderr.strip().rpartition("\n")[2]
        sys.exit(
            f"deploy/wheel.py: no manual pages: {last}; without build isolation, "
            "what pyproject.toml lists as dependencies must be installed first"
        )
