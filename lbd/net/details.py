"""Translates gRPC's text about a broken connection into words for people. Pure."""

SILENT = "it is silent"
CAUSES = (  # the first match counts
    ("ping timeout", SILENT),
    ("timed out", SILENT),
    ("reset by peer", "the connection was closed"),
    ("Broken pipe", "the connection was closed"),
    ("FD Shutdown", SILENT),
)
INTERNAL = ("fd shutdown", "connect()", "deadline exceeded", "tcp handshaker")
NO_CAUSE = "OK"  # of a handshake that the other end broke off
UNPROVEN = "it does not prove to be that host: its certificate belongs to another, or it is revoked"
NOT_REACHED = "it cannot be reached"
STOPPED = "Cancelling all calls"
CLOSED = ("goaway received", "rst_stream closed", "received rst_stream")


def in_plain_words(details: str | None) -> str:
    """Rewrites only texts of gRPC itself; all others come from an LBM, LIM or dispatcher."""
    text = details or ""
    if "Hostname Verification Check failed" in text:
        return UNPROVEN
    if text.startswith("failed to connect to all addresses"):
        cause = text.rpartition(": ")[2]
        return f"{NOT_REACHED} ({'no answer' if is_internal(cause) else cause})"
    if text == "Socket closed" or text.startswith(("Stream removed", "recvmsg:", "sendmsg:")):
        return next((words for sign, words in CAUSES if sign in text), "the connection was closed")
    if text.startswith(STOPPED):
        return "it was stopped"
    if text.casefold().startswith(CLOSED) or text.casefold() == "cancelled":
        return "the connection was closed"
    return SILENT if is_internal(text) else text


def is_internal(text: str) -> bool:
    """Returns whether the text only says what gRPC did: gave up a descriptor or an attempt."""
    return text == NO_CAUSE or text.casefold().startswith(INTERNAL)
