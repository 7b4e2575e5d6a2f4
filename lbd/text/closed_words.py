"""Why a host takes no commands of others, in words: of one host, and of several together."""

from collections import Counter
from collections.abc import Iterable

from lbd.model import Closed

OUT_OF_CONTACT = "out of contact"
DRAINS_SHOWN = 3  # by whom and why, of those that were not drained together
AT_THIS_TIME = "at this time"
WORDS = {
    Closed.UNSAID: "it does not accept commands now",
    Closed.NO_LBM: "its LBM does not answer",
    Closed.STARTING: "its LBM has not started yet",
    Closed.ALONE: "it has no certificate, so other hosts cannot reach it (lbctl init, lbctl join)",
    Closed.HOURS: f"it accepts no commands {AT_THIS_TIME} (admission.when)",
    Closed.LOAD: "its load is too high (admission.load_ceiling)",
    Closed.MEMORY: "it is short of memory (admission.memory_pressure)",
    Closed.OWNER: "its owner is back",
    Closed.DRAINED: "drained",
    Closed.STOPPING: "its LBM is stopping",
}
OF_HOSTS = {
    Closed.UNSAID: "{} closed",
    Closed.NO_LBM: "{} without an LBM",
    Closed.STARTING: "{} starting",
    Closed.ALONE: "{} without a certificate",
    Closed.HOURS: f"{{}} closed {AT_THIS_TIME} (admission.when)",
    Closed.LOAD: "load too high on {} (admission.load_ceiling)",
    Closed.MEMORY: "{} short of memory (admission.memory_pressure)",
    Closed.OWNER: "the owner is back on {}",
    Closed.DRAINED: "{} drained",
    Closed.STOPPING: "{} stopping",
}


def closed_words(closed: Closed | None, more: str = "") -> str:
    """Of one host. `more`: of HOURS when they begin, of DRAINED the `drained_words`; "" = not
    known."""
    if closed is None:
        return OUT_OF_CONTACT
    return _with_more(WORDS[closed], closed, more)


def counted_reasons(reasons: Iterable[tuple[Closed | None, str]]) -> str:
    """`the owner is back on 2 hosts, 1 host drained`. Each host as `closed_words` has it."""
    reasons = list(reasons)
    given = Counter(reasons)
    if len([one for one in given if one[0] is Closed.DRAINED]) > DRAINS_SHOWN:
        given = Counter((one, "" if one is Closed.DRAINED else more) for one, more in reasons)
    known = sorted((closed, more) for closed, more in given if closed is not None)
    parts = [_with_more(OF_HOSTS[one[0]].format(_hosts(given[one])), *one) for one in known]
    if silent := sum(count for (closed, _), count in given.items() if closed is None):
        parts.append(f"{_hosts(silent)} {OUT_OF_CONTACT}")
    return ", ".join(parts)


def drained_words(by: str, since: str, reason: str) -> str:
    """`drained by ann since 17:30: disk sdb`. What is not known is ""."""
    said = (
        WORDS[Closed.DRAINED] + (f" by {by}" if by else "") + (f" since {since}" if since else "")
    )
    return f"{said}: {reason}" if reason else said


def _with_more(words: str, closed: Closed, more: str) -> str:
    if not more:
        return words
    if closed is Closed.DRAINED:
        return words.removesuffix(WORDS[closed]) + more
    return words.replace(AT_THIS_TIME, f"until {more}")


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
