"""The messages between LBM and keeper over keeper.sock: frames of local/frames.py.

Some of the fields are in spawn_order.py, limits/time_limits.py and fd_store.py.
"""

ORDER_LIMIT_BYTES = 16 << 20  # the keeper cannot read past a longer one

# LBM -> keeper
SPAWN = b"S"  # with the command's descriptors attached; fields in spawn_order.py
SIGNAL = b"K"  # JOB, NUMBER
END_TREE = b"T"  # JOB: kill its whole tree now
READ = b"R"  # JOB, WANTED: is a process of it blocked reading one of these? Answered with NUMBER
TREAT = b"W"  # JOB, NUMBER: a kind of suspension.py
LIMIT = b"M"  # deadline and CPU limit of a job: limits/time_limits.py
TOTALS = b"C"  # limits of all jobs together: limits/ceilings.py
PORTS = b"P"  # PLACES: the daemons' ports to reserve, as packed by kept_ports.py
HOLDERS = b"E"  # UID, PATHS: end this user's processes that have one of these files open
LEAVE = b"L"  # this LBM leaves and another will take over: fd_store.py
HOLD = b"H"  # COUNT, with that many descriptors attached
QUIT = b"Q"  # end every job, then this process

# keeper -> LBM
HAS = b"J"  # JOB, BELONGINGS: a job from an earlier LBM; all of them come before HELLO
HELLO = b"O"  # KIND (containment), PID, UID, LIMITS, VERSION (of lbd)
BEGUN = b"B"  # JOB, PID, GROUP
ANSWERED = b"A"  # JOB, ANSWER: to an order that only asks a question; nothing ran
FAILED = b"F"  # JOB, PHASE, NUMBER (errno): nothing ran
STOPPED = b"Z"  # JOB, NUMBER 1 stopped, 0 continued
KILLED = b"D"  # NUMBER 1: its spares die unused one after the other, 0: one has lived
LEFT = b"l"  # reply to LEAVE
GIVEN = b"G"  # the same fields as HOLD
EXITED = b"X"  # JOB, NUMBER (wait status), USER_US, SYSTEM_US, RSS_KIB, OUT_OF_MEMORY, OVER,
# HEARD

PID, UID, GROUP = b"p", b"u", b"g"
PLACES = b"l"
PATHS, PATHS_MAX = b"h", 1000  # separated by NULs
KIND, LIMITS, VERSION = b"k", b"m", b"v"
PHASE, WANTED, NUMBER, ANSWER = b"s", b"w", b"n", b"a"
USER_US, SYSTEM_US = b"U", b"Y"
RSS_KIB = b"R"
OUT_OF_MEMORY = b"o"
HEARD = b"H"  # typed signals sent while its leader was alive, or that it ignored: bit N for N
