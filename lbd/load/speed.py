"""How fast one core of this host is, relative to the reference machine.

Measured once with a loop of compiled code (deflate: integers, branches, memory), in CPU time, so
that other load hardly matters. The result is the best of several runs, rounded to a quarter,
because smaller differences are noise (a busy sibling of the same core alone costs a tenth). It is
saved with the processor's name; another processor is measured again.
"""

import random
import time
import zlib
from pathlib import Path

from lbd.text.kernel_tables import lines_of

REFERENCE_S = 0.0047  # one run of the loop on the machine behind the figures in docs/research
RUNS = 9
STEP = 0.25
BLOCK_BYTES = 1 << 18


def measure() -> float:
    """Measures this host's speed; takes about 0.05 s."""
    block = bytes(value & 0x3F for value in random.Random(1).randbytes(BLOCK_BYTES))
    best_s = min(one_run_s(block) for _ in range(RUNS))
    return max(STEP, round(REFERENCE_S / best_s / STEP) * STEP)


def one_run_s(block: bytes) -> float:
    began = time.thread_time()
    zlib.compress(block, 6)
    return time.thread_time() - began


def processor() -> str:
    """Returns the processor's name; "" if /proc does not give one."""
    try:
        for line in lines_of(Path("/proc/cpuinfo").read_bytes()):
            if line.startswith(("model name", "CPU part", "uarch")):
                return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return ""


def known_speed(state_dir: Path) -> float:
    """Returns the speed in `state_dir/speed`; measures and saves it if the file has none for this
    processor."""
    path = state_dir / "speed"
    name = processor()
    try:
        kept, _, of = path.read_text(encoding="utf-8").strip().partition(" ")
        if of == name and 0.1 <= float(kept) <= 1000:
            return float(kept)
    except (OSError, ValueError):
        pass
    speed = measure()
    path.write_text(f"{speed} {name}\n", encoding="utf-8")
    return speed
