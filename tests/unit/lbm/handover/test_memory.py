"""What is left on the heap once an LBM has read what the one before has left."""

import subprocess
import sys

READS_A_HANDOVER = """
import os
from lbd.cli.daemons.lbm import keep_buffers_on_the_heap
from lbd.lbm.handover import adoption
from lbd.lbm.handover.codec import write
from lbd.lbm.handover.fds import Bundle
from lbd.lbm.handover.records import LinkFrom, StreamState
from lbd.lbm.handover.saving import NEEDS, VERSION, Parts
from lbd.net.gen.handover_pb2 import Handover

def memory_mib():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10

keep_buffers_on_the_heap()
parts = Parts()
for _ in range(8):
    part = Handover()
    unread = tuple(bytes(1 << 16) for _ in range(16 * 8))
    write(LinkFrom("h2", StreamState("", unread=unread)), Bundle(), part.links_from.add())
    parts.put(part)
parts.put(Handover(version=VERSION, needs=NEEDS))
del part, unread
adoption.free_unused_memory()
before_mib = memory_mib()
left = adoption.read_left([parts.descriptor])
adoption.free_unused_memory()
print(memory_mib() - before_mib, len(left.links_from))
"""


def test_what_was_needed_to_read_a_handover_is_given_back():
    done = subprocess.run(
        [sys.executable, "-c", READS_A_HANDOVER], capture_output=True, text=True, check=True
    )
    grown_mib, streams = map(int, done.stdout.split())
    assert streams == 8
    assert grown_mib in range(60, 80), "64 MiB were handed over"
