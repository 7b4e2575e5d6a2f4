"""Needs and facts as space-separated words: the form they have between hosts, in the ledger and in
`lbrun`'s messages. Everything read here is checked, since it may come from another host.
"""

from functools import lru_cache

from lbd.model import NO_FACTS, NO_NEEDS, Facts, Needs
from lbd.text.needs import (
    AMOUNT_MAX,
    FEATURES_MAX,
    NAMES_MAX,
    read_features,
    read_name,
    read_needs,
)


def needs_text(needs: Needs) -> str:
    """Returns `gpu=2 +big -slow memory=1024 ~1024`, or "" for no needs. The last word is the memory
    that the command used recently."""
    if not needs:
        return ""
    words = [f"{name}={amount}" for name, amount in needs.resources]
    words += [f"+{feature}" for feature in needs.features]
    words += [f"-{feature}" for feature in needs.not_features]
    if needs.memory_bytes:
        words.append(f"memory={needs.memory_bytes}")
    if needs.peak_bytes:
        words.append(f"~{needs.peak_bytes}")
    return " ".join(words)


@lru_cache(maxsize=256)
def read_needs_text(text: str) -> Needs:
    """Raises ValueError for any malformed text."""
    if not text:
        return NO_NEEDS
    words = text.split(" ")
    if len(words) > 3 * NAMES_MAX + 2:
        raise ValueError("too many needs")
    memory = [word.removeprefix("memory=") for word in words if word.startswith("memory=")]
    peaks = [word[1:] for word in words if word.startswith("~")]
    if max(len(memory), len(peaks)) > 1 or not all(map(is_count, memory + peaks)):
        raise ValueError("needs of memory that cannot be")
    signed = [word for word in words if word[:1] in ("+", "-", "~")]
    plain = [word for word in words if word not in signed and not word.startswith("memory=")]
    return Needs(
        tuple(read_needs(plain)),
        tuple(read_features([word[1:] for word in signed if word[0] == "+"])),
        tuple(read_features([word[1:] for word in signed if word[0] == "-"])),
        int(memory[0]) if memory else 0,
        int(peaks[0]) if peaks else 0,
    )


def are_needs(text: str) -> bool:
    try:
        read_needs_text(text)
    except ValueError:
        return False
    return True


def read_feature_rule(text: str) -> tuple[str, Needs]:
    """Reads `ENTRY: +FEATURE -FEATURE`: which commands, and what they need. Raises ValueError."""
    entry, colon, words = text.partition(":")
    needs = read_needs_text(" ".join(words.split())) if colon else NO_NEEDS
    if not entry.strip() or not (needs.features or needs.not_features):
        raise ValueError(f"{text!r} is not a rule; allowed: 'nvcc: +cuda', 'gcc -c: +x86_64 -slow'")
    if needs.resources or needs.memory_bytes or needs.peak_bytes:
        raise ValueError(f"{text!r}: features must start with + or -")
    return entry.strip(), needs


def is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= AMOUNT_MAX


def resources_text(facts: Facts) -> str:
    """Returns words like `gpu:2:1`: two exist, one of them is in use."""
    return " ".join(f"{name}:{total}:{used}" for name, total, used in facts.resources)


@lru_cache(maxsize=4096)
def read_resources_text(text: str) -> tuple[tuple[str, int, int], ...]:
    """Raises ValueError."""
    if not text:
        return ()
    found = []
    for word in text.split(" ", NAMES_MAX):
        name, total, used, *more = word.split(":", 3)
        if more or not (is_count(total) and is_count(used)):
            raise ValueError("a resource that cannot be")
        found.append((read_name(name), int(total), int(used)))
    if len(found) > NAMES_MAX or sorted({one[0] for one in found}) != [one[0] for one in found]:
        raise ValueError("resources that cannot be")
    return tuple(found)


@lru_cache(maxsize=1024)
def read_features_text(text: str) -> tuple[str, ...]:
    """Raises ValueError."""
    if not text:
        return ()
    found = tuple(map(read_name, text.split(" ", FEATURES_MAX)))
    if len(found) > FEATURES_MAX or list(found) != sorted(set(found)):
        raise ValueError("features that cannot be")
    return found


def facts_fields(facts: Facts) -> dict[str, object]:
    """Returns the fields that a host's LIM and LBM exchange."""
    return {
        "features": " ".join(facts.features),
        "resources": resources_text(facts),
        "memory_total": facts.memory_total,
        "memory_given": facts.memory_given,
    }


def read_facts_fields(said: object) -> Facts:
    """Reads the fields of `facts_fields`; missing ones count as empty. Raises ValueError."""
    if not isinstance(said, dict):
        return NO_FACTS
    memory = [said.get(key) for key in ("memory_total", "memory_given")]
    total, given = (value if isinstance(value, int) and value >= 0 else 0 for value in memory)
    return read_facts(str(said.get("features")), str(said.get("resources")), total, given)


def read_facts(features: str, resources: str, total: int, given: int) -> Facts:
    """`total` and `given` are memory in bytes. Raises ValueError."""
    if max(total, given) > AMOUNT_MAX:
        raise ValueError("memory that cannot be")
    return Facts(read_features_text(features), read_resources_text(resources), total, given)
