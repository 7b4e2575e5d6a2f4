"""What LBM and keeper say to each other over keeper.sock: frames of rpc/frames.py.

Those about orders are in spawn_order.py, limits.py and holding.py.
"""

# LBM -> keeper
SPAWN = b"S"  # with the command's descriptors attached; fields below
SIGNAL = b"K"  # JOB, NUMBER
END_TREE = b"T"  # JOB: kill all of it now
READ = b"R"  # JOB, WANTED: does one of it wait to read one of these? Comes back with NUMBER
TREAT = b"W"  # JOB, NUMBER: one of treatment.py
TOTALS = b"C"  # what all jobs may use together: ceilings.py
QUIT = b"Q"  # end every job, then this process
# keeper -> LBM
HELLO = b"O"  # KIND (containment), PID, UID
BEGUN = b"B"  # JOB, PID, GROUP
FAILED = b"F"  # JOB, STAGE, NUMBER (errno): nothing ran
STOPPED = b"Z"  # JOB, NUMBER 1 stopped, 0 continued
EXITED = b"X"  # JOB, NUMBER (wait status), USER_US, SYSTEM_US, RSS_KIB, OUT_OF_MEMORY, OVER

PID, UID, GROUP = b"p", b"u", b"g"
KIND, LIMITS = b"k", b"m"
STAGE, WANTED, NUMBER = b"s", b"w", b"n"
USER_US, SYSTEM_US = b"U", b"Y"
RSS_KIB = b"R"
OUT_OF_MEMORY = b"o"
