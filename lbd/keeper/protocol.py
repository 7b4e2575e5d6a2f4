"""What LBM and keeper say to each other over keeper.sock: frames of local/frames.py.

The fields of some are in spawn_order.py, limits/time_limits.py and fd_store.py.
"""

ORDER_LIMIT_BYTES = 16 << 20  # a longer one, and all that follows it, the keeper cannot read

# LBM -> keeper
SPAWN = b"S"  # with the command's descriptors attached; fields below
SIGNAL = b"K"  # JOB, NUMBER
END_TREE = b"T"  # JOB: kill all of it now
READ = b"R"  # JOB, WANTED: does one of it wait to read one of these? Comes back with NUMBER
TREAT = b"W"  # JOB, NUMBER: one of suspension.py
LIMIT = b"M"  # until when a job may run, and how much it may use: limits/time_limits.py
TOTALS = b"C"  # what all jobs may use together: limits/ceilings.py
PORTS = b"P"  # PLACES: ports of the daemons to keep, as kept_ports.py packs them
HOLDERS = b"E"  # UID, PATHS: end that user's processes which have one of these files open
LEAVE = b"L"  # this LBM ends; the next one goes on: fd_store.py
HOLD = b"H"  # COUNT, with so many descriptors attached
QUIT = b"Q"  # end every job, then this process

# keeper -> LBM
HAS = b"J"  # JOB, BELONGINGS: it has this job, from an LBM before; all of them before HELLO
HELLO = b"O"  # KIND (containment), PID, UID, LIMITS, VERSION (of lbd)
BEGUN = b"B"  # JOB, PID, GROUP
ANSWERED = b"A"  # JOB, ANSWER: to an order that only asks; nothing ran
FAILED = b"F"  # JOB, PHASE, NUMBER (errno): nothing ran
STOPPED = b"Z"  # JOB, NUMBER 1 stopped, 0 continued
LEFT = b"l"  # to LEAVE
GIVEN = b"G"  # as HOLD
EXITED = b"X"  # JOB, NUMBER (wait status), USER_US, SYSTEM_US, RSS_KIB, OUT_OF_MEMORY, OVER,
# HEARD

PID, UID, GROUP = b"p", b"u", b"g"
PLACES = b"l"
PATHS, PATHS_MAX = b"h", 1000  # with NULs between them
KIND, LIMITS, VERSION = b"k", b"m", b"v"
PHASE, WANTED, NUMBER, ANSWER = b"s", b"w", b"n", b"a"
USER_US, SYSTEM_US = b"U", b"Y"
RSS_KIB = b"R"
OUT_OF_MEMORY = b"o"
HEARD = b"H"  # the signals that its leader was there to hear: bit N for signal N
