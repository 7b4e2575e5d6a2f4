"""A line's share of the digest by which the centre and a host compare what they have published and
heard: of all lines together it is their exclusive or, so that one that changes costs one step.

It finds what went wrong by accident. A host that invents lines can invent their digest as well.
"""

from zlib import crc32

from lbd.lim.core.messages import Sample

BITS = 0xFFFFFFFF
FACTOR = 0x9E3779B1  # odd, of no pattern


def mark_of(slot: int, sample: Sample, silent: bool) -> int:
    mark = crc32(sample.host.encode())
    for part in (slot << 1 | silent, sample.incarnation, sample.number):
        for half in (part & BITS, part >> 32):
            mark = (mark ^ half) * FACTOR & BITS
            mark ^= mark >> 15
    return mark
