"""Does a host satisfy a command's needs: now, once other jobs have ended, or never as it is? Pure.

This is the only place that decides it. The LIM asks it for each host in its table, the LBM before
it starts a command, the dispatcher for its queued jobs, and the simulator does the same. Their
knowledge of a host differs only in age. The host that runs the command knows for certain, and
allocates the resources there (lbm/core/slots.py).
"""

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import NamedTuple

from lbd.model import Facts, Needs
from lbd.text.needs import AMOUNT_MAX
from lbd.text.units import show_size

SMALL_PEAK_BYTES = 256 << 20
PEAK_BITS = 3  # a learnt peak is rounded up to so many significant bits
COUNTED_MAX = 4096  # a larger resource is a size, such as bytes of a disk, and has no indices


class Unmet(NamedTuple):
    why: str  # for people, to follow the host's name and a colon
    later: bool  # other jobs hold it and will release it


def unmet(needs: Needs, facts: Facts) -> Unmet | None:
    """Returns what the host lacks of `needs`; None if it lacks nothing. What it can never provide
    comes first."""
    if not facts.features and (needs.resources or needs.features or needs.not_features):
        return Unmet("has not reported its resources (its LBM does not answer)", later=False)
    if (why := missing_feature(needs, facts)) is not None:
        return Unmet(why, later=False)
    taken: Unmet | None = None
    for name, total, used, amount in [*asked(needs, facts), *memory_asked(needs, facts)]:
        if total < amount:
            return Unmet(too_few(name, total, amount), later=False)
        if total - used < amount and taken is None:
            taken = Unmet(all_taken(name, total, used, amount), later=True)
    return taken


def taken_by_others(needs: Needs, facts: Facts) -> set[str]:
    """Returns the names of what the host has but other jobs hold now; may include "memory"."""
    everything = [*asked(needs, facts), *memory_asked(needs, facts)]
    return {name for name, total, used, amount in everything if total - used < amount <= total}


def part_of(needs: Needs, names: Container[str]) -> Needs:
    """Returns only the amounts of these names."""
    resources = tuple((name, amount) for name, amount in needs.resources if name in names)
    return Needs(resources, memory_bytes=needs.memory_bytes if "memory" in names else 0)


def missing_feature(needs: Needs, facts: Facts) -> str | None:
    for feature in needs.features:
        if feature not in facts.features:
            return f"no feature {feature}"
    for feature in needs.not_features:
        if feature in facts.features:
            return f"has the feature {feature}"
    return None


def asked(needs: Needs, facts: Facts) -> list[tuple[str, int, int, int]]:
    """Returns name, total, used and needed amount of each resource."""
    if not needs.resources:
        return []
    there = {name: (total, used) for name, total, used in facts.resources}
    return [(name, *there.get(name, (0, 0)), amount) for name, amount in needs.resources]


def memory_asked(needs: Needs, facts: Facts) -> list[tuple[str, int, int, int]]:
    if not (needs.memory_bytes and facts.memory_total):
        return []
    return [("memory", facts.memory_total, facts.memory_given, needs.memory_bytes)]


def jobs_at_once(needs: Needs, facts: Facts) -> int | None:
    """How many such jobs the host could run if nobody else held anything; None: as many as it has
    slots."""
    everything = [*asked(needs, facts), *memory_asked(needs, facts)]
    return min((total // amount for _, total, _, amount in everything), default=None)


def jobs_now(needs: Needs, facts: Facts) -> int | None:
    """How many such jobs the host can run with what is free now; None as for `jobs_at_once`."""
    everything = [*asked(needs, facts), *memory_asked(needs, facts)]
    return min((max(0, total - used) // n for _, total, used, n in everything), default=None)


def joined(facts: Facts, given: Mapping[str, int], memory_given: int) -> Facts:
    """Adds what has been allocated in the meantime."""
    if not given and not memory_given:
        return facts
    used = tuple((name, total, n + given.get(name, 0)) for name, total, n in facts.resources)
    return Facts(facts.features, used, facts.memory_total, facts.memory_given + memory_given)


def with_features(needs: Needs, besides: Needs) -> Needs:
    """Adds the features that a rule requires."""
    if not besides:
        return needs
    features = sorted({*needs.features, *besides.features})
    not_features = sorted({*needs.not_features, *besides.not_features})
    return replace(needs, features=tuple(features), not_features=tuple(not_features))


def offer(facts: Facts) -> Facts:
    """Returns the totals, as if nothing were used."""
    totals = tuple((name, total, 0) for name, total, _ in facts.resources)
    return Facts(facts.features, totals, facts.memory_total)


def counted_peak(learnt_bytes: int, limit_bytes: int = 0) -> int:
    """Returns the learnt peak that placements use. It is rounded up to one of a few values, since
    each value is a distinct kind of needs. A peak so small that any host has it becomes 0, to save
    checking all hosts."""
    peak = min(learnt_bytes, limit_bytes) if limit_bytes else learnt_bytes
    if peak < SMALL_PEAK_BYTES:
        return 0
    step = 1 << (peak.bit_length() - PEAK_BITS)
    return min(-(-peak // step) * step, AMOUNT_MAX)


def too_little_memory(needs: Needs, facts: Facts, memory: tuple[int, int]) -> str:
    """Returns why the memory that the command used lately would not fit; "" if it would. `memory`:
    the host's total and available bytes. What is allocated to other jobs counts as theirs, even if
    they do not use it yet."""
    total, available = memory
    if not total:
        return ""
    left = max(0, min(available, total - facts.memory_given))
    if needs.peak_bytes <= left:
        return ""
    return (
        f"{show_size(left)} memory available, but the command has used up to "
        f"{show_size(needs.peak_bytes)}"
    )


def is_size(name: str, total: int) -> bool:
    return name == "memory" or total > COUNTED_MAX


def too_few(name: str, total: int, amount: int) -> str:
    if not total:
        return f"no {name}"
    if is_size(name, total):
        return f"has {show_size(total)} {name}, not {show_size(amount)}"
    return f"has {total} {plural(name, total)}, not {amount}"


def all_taken(name: str, total: int, used: int, amount: int) -> str:
    free = max(0, total - used)
    if is_size(name, total):
        free_text = show_size(free) if free else "none"
        return f"{free_text} of {show_size(total)} {name} free, not {show_size(amount)}"
    if free:
        return f"{free} of {total} {plural(name, total)} free, not {amount}"
    if total == 1:
        return f"its {name} is in use"
    return (
        f"both {plural(name, 2)} in use" if total == 2 else f"all {total} {plural(name, 2)} in use"
    )


def plural(name: str, count: int) -> str:
    return name if count == 1 or name.endswith("s") else f"{name}s"


def one_of(name: str) -> str:
    """`a gpu`, `an atlas-port`, but `licences`."""
    return name if name.endswith("s") else f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def needed(needs: Needs) -> str:
    """Describes the needs for people."""
    words = [
        one_of(name)
        if amount == 1
        else f"{amount} {plural(name, amount)}"
        if not is_size(name, amount)
        else f"{show_size(amount)} {name}"
        for name, amount in needs.resources
    ]
    words += [f"the feature {feature}" for feature in needs.features]
    words += [f"no feature {feature}" for feature in needs.not_features]
    if needs.memory_bytes:
        words.append(f"{show_size(needs.memory_bytes)} memory")
    return ", ".join(words)
