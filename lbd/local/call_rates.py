"""How much those who ask the dispatcher may ask: by the bytes that their calls bring and are
answered. The dispatcher holds each host to `dispatch.host_bytes_per_s`, and each host's LBM each of
its users to half of that, so that no user keeps the others of that host waiting. Pure."""

from collections.abc import Hashable

from lbd.local.rate_limit import TURN_BYTES, Rates

# A submission brings its job's standard input, and costs the dispatcher a write to the disk: less
# than to hear as much on a line.
CHEAPER = 16
CALL_BYTES = CHEAPER * TURN_BYTES
AT_ONCE_S, TURNS_MIN = 4, 1 / 16
PATIENCE_S = 8.0  # less than who asks waits for an answer
USER_SHARE = 0.5
FOR_EVER_S = float("inf")


class CallRates:
    def __init__(self, bytes_per_s: float) -> None:
        per_s = bytes_per_s / TURN_BYTES
        self._rates = Rates(per_s, AT_ONCE_S * per_s)

    def wait_s(self, key: Hashable, size_bytes: int, now_s: float) -> float | None:
        """Before a call of so many bytes; None: too long, and it does not count."""
        turns = max(TURNS_MIN, size_bytes / CALL_BYTES)
        return self._rates.turn_s(key, now_s, PATIENCE_S, turns)

    def answered(self, key: Hashable, size_bytes: int, now_s: float) -> None:
        """Charges the size of an answer to the next calls."""
        self._rates.turn_s(key, now_s, FOR_EVER_S, size_bytes / CALL_BYTES)
