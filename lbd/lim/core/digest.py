"""A line's share of the digest by which the centre and a host compare what was published and what
was received. The digest is the exclusive or of all lines, so that a changed line costs one step.

It detects accidents. A host that makes up lines can make up their digest as well.
"""

from struct import Struct
from zlib import crc32

from lbd.lim.core.messages import Sample

NUMBERS = Struct("<3Q")
BITS = 0xFFFFFFFF
FACTOR = 0x9E3779B97F4A7C15  # odd, without a pattern


def mark_of(slot: int, sample: Sample, silent: bool) -> int:
    numbers = NUMBERS.pack(slot << 1 | silent, sample.incarnation, sample.number)
    # Of CRCs alone, two that exchange their numbers would have the same exclusive or.
    return crc32(numbers, crc32(sample.host.encode())) * FACTOR >> 32 & BITS
