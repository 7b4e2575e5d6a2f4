"""Tables of the kernel (/proc/PID/mountinfo and others)."""


def lines_of(table: str) -> list[str]:
    """Returns the lines of one of the kernel's tables. Only a newline ends one: names that users
    have chosen are in there, with anything else that `splitlines` takes for an end."""
    return table.removesuffix("\n").split("\n")
