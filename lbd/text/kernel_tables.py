"""Tables of the kernel (/proc/PID/mountinfo and others)."""


def lines_of(table: bytes) -> list[str]:
    """Returns the lines of one of the kernel's tables. Only a newline ends one: names that users
    have chosen are in there, with anything else that `splitlines` takes for an end, and with bytes
    that are no UTF-8."""
    return table.decode(errors="replace").removesuffix("\n").split("\n") if table else []
