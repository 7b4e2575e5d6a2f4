"""The features and GPUs of a host that commands may need, as far as they can be detected."""

import os
from pathlib import Path

CPUINFO_BYTES = 1 << 16  # enough for the first CPU
# Flags that programs are compiled for, out of the hundred others a host has.
WORTH_NAMING = frozenset((
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni",
    "avx512_bf16", "avx_vnni", "amx_tile", "aes", "sha_ni", "vmx", "svm",
    "asimd", "sve", "sve2", "sha2", "atomics",
))  # fmt: skip
AMD_NODES = "sys/class/kfd/kfd/topology/nodes"


def features(root: Path = Path("/")) -> tuple[str, ...]:
    """Returns the architecture, the system and the CPU's flags, sorted."""
    system = os.uname()
    found = {system.machine, system.sysname.lower(), *cpu_flags(root)}
    return tuple(sorted(found))


def cpu_flags(root: Path) -> set[str]:
    try:
        with open(root / "proc/cpuinfo", encoding="ascii", errors="replace") as file:
            text = file.read(CPUINFO_BYTES)
    except OSError:
        return set()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split()) & WORTH_NAMING
    return set()


def gpus(root: Path = Path("/")) -> int:
    """Counts the NVIDIA GPUs; if there are none, the AMD ones."""
    return nvidia_gpus(root) or amd_gpus(root)


def nvidia_gpus(root: Path) -> int:
    devices = names_in(root / "dev")
    count = sum(name.startswith("nvidia") and name[len("nvidia") :].isdigit() for name in devices)
    return count or len(names_in(root / "proc/driver/nvidia/gpus"))


def amd_gpus(root: Path) -> int:
    """Counts the driver's nodes that have SIMD units: the others are CPUs."""
    if not (root / "dev/kfd").exists():
        return 0
    nodes = root / AMD_NODES
    return sum(has_simd(nodes / name / "properties") for name in names_in(nodes))


def has_simd(path: Path) -> bool:
    try:
        words = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    except (OSError, UnicodeDecodeError):
        return False
    return words.get("simd_count", "0").strip() not in ("", "0")


def names_in(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
