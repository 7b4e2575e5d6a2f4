"""What a dispatcher says that serves nothing, or not yet; `lbctl` reads it in its last words."""

REVOKED = (
    "this host, {}, is revoked, and another machine may have its name and its queue: no job starts "
    "here; `lbctl doctor` says what to do"
)
WAITS_FOR_WORD = "waiting up to {} until another host confirms that the queue is still here: {}"
UNHEARD = (
    "no other host has confirmed within {} that the queue is still here, so it starts unconfirmed: "
    "if this machine was replaced by another, end it"
)


AWAY = ", the ledger that was used last, is not there: mount its disk, or put it back"
FULL_DISK = "the disk of the ledger is full"
WAITS = "waits: "  # begins what a dispatcher answers that waits for its ledger
OF_ONE = "the dispatcher on "
SAID_CHARS = 600


def is_revoked(why: str) -> bool:
    return "is revoked" in why


def waits_for_word(why: str) -> bool:
    """Whether it waits for another host's word. It starts by itself, at the latest after the time
    that it names."""
    return "until another host confirms that the queue" in why


def is_away(why: str) -> bool:
    """Whether it waits for its ledger, which is not there, or whose disk is full."""
    return AWAY in why or FULL_DISK in why


def why_silent(why: str) -> str:
    """Returns what keeps a dispatcher silent, after its name."""
    if waits_for_word(why):
        return f"is {why}; then it starts in any case"
    return f"{WAITS}{why}" if is_away(why) else f"cannot start: {why}"


def silence(host: str, why: str) -> str:
    """Returns what to say of a dispatcher that gives no answer. `why`: its own words, if it waits
    for its ledger; else those of our end of the connection."""
    says = why if why.startswith(WAITS) else f"does not answer: {why}"
    return f"{OF_ONE}{host} {says}"


def cause_in(problem: object, host: str = "") -> str:
    """Returns for what a dispatcher waits, from a message made by `silence`; "" if it is another
    message, or about another host."""
    where, waits, why = str(problem).partition(f" {WAITS}")
    is_meant = where == f"{OF_ONE}{host}" if host else where.startswith(OF_ONE)
    return why if waits and is_meant else ""


def shortly(why: str) -> str:
    """Returns why a dispatcher waits for its ledger, without a path: strangers may read it."""
    if AWAY in why:
        return "its ledger is not there"
    return "the disk of its ledger is full" if FULL_DISK in why else "its ledger cannot be opened"
