"""gRPC's messages about a broken connection are replaced by plain words; others are unchanged."""

import pytest

from lbd.net.details import in_plain_words


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ("Stream removed (Secure read failed (Socket closed))", "the connection was closed"),
        ("Stream removed (ping timeout)", "it is silent"),
        ("Stream removed (Secure read failed (recvmsg:Connection timed out))",
         "it is silent"),
        ("Socket closed", "the connection was closed"),
        ("recvmsg:Connection reset by peer", "the connection was closed"),
        ("Stream removed (something new)", "the connection was closed"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: Failed to "
         "connect to remote host: getsockopt(SO_ERROR): Connection refused (111)",
         "it cannot be reached (Connection refused (111))"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: "
         "Hostname Verification Check failed.",
         "it does not prove to be that host: its certificate belongs to another, or it is revoked"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: FD Shutdown",
         "it cannot be reached (no answer)"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: connect() "
         "timed out", "it cannot be reached (no answer)"),
        ("Stream removed (Secure read failed (FD Shutdown))", "it is silent"),
        ("FD Shutdown", "it is silent"),
        ("Deadline Exceeded", "it is silent"),
        ("GOAWAY received; Error code: 0; Debug Text: Server shutdown",
         "the connection was closed"),
        ("RST_STREAM closed stream. HTTP/2 error code: INTERNAL_ERROR",
         "the connection was closed"),
        ("Cancelled", "the connection was closed"),
        ("Cancelling all calls", "it was stopped"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: OK",
         "it cannot be reached (no answer)"),
        ("failed to connect to all addresses; last error: UNKNOWN: ipv4:10.1.2.3:7901: tcp "
         "handshaker shutdown", "it cannot be reached (no answer)"),
        ("tcp handshaker shutdown", "it is silent"),
        ("cancelled by its user", "cancelled by its user"),
        ("h2 is revoked", "h2 is revoked"),
        ("the job printed: Socket closed", "the job printed: Socket closed"),
        (None, ""),
    ],
)  # fmt: skip
def test_which_words_are_used(details, said):
    assert in_plain_words(details) == said
