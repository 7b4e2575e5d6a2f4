"""Dispatch on arrival: each host has a line of its own, and a job's host is settled as it comes.

The four disciplines of this kind differ in `join` alone.
"""

from collections.abc import Sequence

from lbd.dispatch.discipline import HostSlots, Line


class OwnLines:
    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[Line, ...]:
        return (host.name,)

    def cutoff_s(self, line: Line) -> None:
        return None
