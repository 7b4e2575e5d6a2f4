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


def is_revoked(why: str) -> bool:
    return "is revoked" in why


def waits_for_word(why: str) -> bool:
    """Whether it waits for another host's word. It starts by itself, at the latest after the time
    that it names."""
    return "until another host confirms that the queue" in why


def why_silent(why: str) -> str:
    """Returns what keeps a dispatcher silent, after its name."""
    return (
        f"is {why}; then it starts in any case" if waits_for_word(why) else f"cannot start: {why}"
    )
