"""Limits that clients, LBM and dispatcher each check, and so must agree on."""

SLOTS_MAX = 1 << 16  # no host has more
GANG_MAX = 4096  # jobs; each is told the names of all their hosts
PRIORITY_MAX = 999  # up and down
SPEEDUP_MAX = 1e6
WORK_S_MAX = 1e9
AFTER_MAX = 1000  # jobs that one job waits for
EXCLUDED_MAX = 1024  # hosts
REQUEST_BYTES_MAX = 12 << 20  # the largest allowed lbm.max_request_bytes, on any host
HELD_MAX = 20_000  # attempts; no host holds more
TIME_MAX = 1e11  # seconds, also UNIX times
