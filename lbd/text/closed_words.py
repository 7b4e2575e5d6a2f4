"""Words for why a host does not accept foreign commands, for one host and for several at once."""

from collections import Counter
from collections.abc import Iterable

from lbd.model import Closed
from lbd.text.units import counted

OUT_OF_CONTACT = "out of contact"
NOT_HEARD_YET = "not heard from yet"
DRAINS_SHOWN = 3  # hosts with different reasons for the drain whose reasons are shown
JOINING = "lbctl init or lbctl join, then lbctl restart; lbctl doctor if it had one"
AT_THIS_TIME = "at this time"
WORDS = {
    Closed.UNSAID: "it does not accept commands now",
    Closed.NO_LBM: "its LBM does not answer",
    Closed.STARTING: "its LBM has not started yet",
    Closed.ALONE: f"it runs without a certificate, so other hosts cannot reach it ({JOINING})",
    Closed.HOURS: f"it accepts no commands {AT_THIS_TIME} (admission.when)",
    Closed.LOAD: "its load is too high (admission.load_ceiling)",
    Closed.MEMORY: "it is short of memory (admission.memory_pressure)",
    Closed.OWNER: "its owner is back",
    Closed.DRAINED: "drained",
    Closed.STOPPING: "its LBM is stopping",
    Closed.NO_KEEPER: "its keeper is not running, so nothing can start there",
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
    Closed.NO_KEEPER: "{} without a keeper",
}


def closed_words(closed: Closed | None, more: str = "") -> str:
    """Describes one host. `more`: for HOURS when they begin, for DRAINED the `drained_words`, for a
    host that is not there any more that it was stopped; "" if not known."""
    if closed is None:
        return more or OUT_OF_CONTACT
    return _with_more(WORDS[closed], closed, more)


def counted_reasons(reasons: Iterable[tuple[Closed | None, str]]) -> str:
    """Returns `the owner is back on 2 hosts, 1 host drained`; each item as for `closed_words`."""
    reasons = list(reasons)
    given = Counter(reasons)
    if len([one for one in given if one[0] is Closed.DRAINED]) > DRAINS_SHOWN:
        given = Counter((one, "" if one is Closed.DRAINED else more) for one, more in reasons)
    known = sorted((closed, more) for closed, more in given if closed is not None)
    parts = [
        _with_more(OF_HOSTS[one[0]].format(counted(given[one], "host")), *one) for one in known
    ]
    away = {more: count for (closed, more), count in given.items() if closed is None}
    parts += [f"{counted(away[more], 'host')} {more or OUT_OF_CONTACT}" for more in sorted(away)]
    return ", ".join(parts)


def drained_words(by: str, since: str, reason: str) -> str:
    """Returns `drained by ann since 17:30: disk sdb`. Unknown parts are ""."""
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
