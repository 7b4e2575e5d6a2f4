"""A line's share of the digest by which the centre and a host compare what was published and what
was received. The digest is the exclusive or of all lines, so that a changed line costs one step.

It detects accidents. A host that makes up lines can make up their digest as well.
"""

from zlib import crc32

from lbd.lim.core.messages import Sample

BITS = 0xFFFFFFFF
FACTOR = 0x9E3779B1  # odd, without a pattern


def mark_of(slot: int, sample: Sample, silent: bool) -> int:
    mark = crc32(sample.host.encode())
    for part in (slot << 1 | silent, sample.incarnation, sample.number):
        for half in (part & BITS, part >> 32):
            mark = (mark ^ half) * FACTOR & BITS
            mark ^= mark >> 15
    return mark
