"""What `lbrun` and the LBM say to each other on lbm.sock: tags of frames, keys of their fields.

The LBM answers every request within a moment, if only with TAKEN; from a stopped one nothing comes.
`lbrun` sends RUN and gets either HERE (run it yourself: exec) or, when the command goes elsewhere,
GIVE, and DONE at its end. It answers GIVE with DESCRIPTORS, the caller's open ones among 0, 1, 2
attached (SCM_RIGHTS): not sooner, for in the queue of a stopped LBM they would keep the caller's
pipes open. Closing the connection before DONE ends the command. Numbers are decimal text.
"""

# client -> LBM
RUN = b"R"
QUEUE = b"q"  # as RUN, with the keys of QUEUE below: into the queue. Answered by QUEUED
LOCAL = b"L"  # run it here: HERE is wanted for the job's name only
DESCRIPTORS = b"F"
SIGNAL = b"S"  # body: one byte
FORCE = b"K"
USED = b"U"  # a measured command has ended: JOB, CPU, STATUS
PIPE = b"p"  # one end of a pipe attached: the answer to PACK and UNPACK
STAGED = b"k"  # the packer or unpacker has ended; body: what went wrong, empty if nothing
INPUT = b"I"  # terminal input read by the client; empty = end of file
READY = b"w"  # after DESCRIPTORS with a terminal to be read: it is in the modes it should be
RESIZE = b"Z"  # the terminal's new size, as in TERMINAL
SET_MODES = b"M"  # the terminal's modes by now, as in MODES
RESTORED = b"r"  # after DONE: the terminal is as it was
GROUND = b"B"  # one byte: 1 the client has gone into the background, 0 it is in front again
# LBM -> client
TAKEN = b"T"  # the request has been read; sent when the answer takes a while
UNFIT = b"O"  # the LBM cannot take this request; body: why. Nothing ran
HERE = b"H"
AWAY = b"V"  # to FLAG_ASK: it would leave; nothing has been done about it
GIVE = b"G"
PACK = b"C"  # pack what is to be sent; body: the most bytes and files, "BYTES FILES"
UNPACK = b"E"  # unpack what was fetched; body: "BYTES FILES STATUS", that of the command
PLACED = b"P"  # the command has begun on another host
WARN = b"W"  # body: a line for stderr
INPUT_TAKEN = b"A"  # the last INPUT is consumed: read on
SCREEN = b"Q"  # the terminal is to treat output as it is from here on
STOPPED = b"Y"  # the command has stopped; it goes on after SIGCONT
WANTED = b"N"  # the client is in the background, and the command reads its terminal: stop
DONE = b"D"
QUEUED = b"j"  # it is on disk; body: its id
WAITS = b"z"  # of QUEUE without FLAG_DETACH; body: why
PROGRESS = b"g"  # of QUEUE with FLAG_PROGRESS; body: how far the array is, in a line
OUTPUT = b"1"  # of such a job, as is
ERRORS = b"2"

# keys of RUN and LOCAL
ARGUMENT = b"a"
ENVIRONMENT = b"e"
DIRECTORY = b"d"
UMASK = b"u"
MODE = b"m"  # auto | remote | host | local
HOST = b"h"
EXCLUDED = b"x"
FLAGS = b"f"
TIMEOUT = b"t"
MEMORY = b"M"
NAME = b"n"
CLOSED_FDS = b"c"  # bit 0..2 set: the caller has that descriptor closed
NULL_OUTPUTS = b"0"  # bit 1..2 set: that descriptor is /dev/null
DEPTH = b"H"  # how many lbruns this one is inside of
IGNORED = b"i"  # the signals the caller ignores: bit N - 1 for signal N
SEND = b"S"  # a path, relative to DIRECTORY, that goes along; repeatable, as is
FETCH = b"E"  # one that comes back
LET_THROUGH = b"k"  # a variable named by -e: it leaves although environment.deny names it
TERMINAL = b"T"  # present: the command wants a terminal; "rows columns xpixels ypixels"
SLOTS = b"N"  # -n, "least-most"; of HERE: so many are free here
NEEDS = b"R"  # resources and features, as text/needs_words.py writes them
MODES = b"y"  # of the caller's terminal: termios as text (launch/terminal_modes.py)

# keys of QUEUE
ARRAY = b"A"  # indexes as text/index_list.py writes them, with %N for so many at once
KEY = b"I"  # of idempotency
INPUT_DATA = b"D"  # its standard input
CHECKPOINT = b"C"  # --checkpoint
OUTPUT_FILE = b"o"
ERROR_FILE = b"r"
PRIORITY = b"P"
TARGET = b"Z"  # --target, seconds
DEADLINE = b"z"  # --deadline, UNIX seconds
SPEEDUP = b"U"  # --speedup, "A SIGMA"
WORK = b"W"  # --work, seconds
AFTER = b"B"  # --after…: "ok:12 failed:13_7 any:14 task:15"
BEGIN = b"b"  # --begin, UNIX seconds
NOTIFY = b"Y"  # --notify, a line for `sh -c`

FLAG_NO_FALLBACK = b"n"
FLAG_DETACH = b"d"  # of QUEUE: nobody waits for its end
FLAG_NO_RESTART = b"R"
FLAG_APPEND = b"A"  # of QUEUE: to OUTPUT_FILE and ERROR_FILE
FLAG_GANG = b"g"  # of QUEUE with ARRAY: all begin together or none
FLAG_PROGRESS = b"P"  # of QUEUE with ARRAY: send PROGRESS
FLAG_NO_STDIN = b"i"
FLAG_TERMINAL_INPUT = b"p"  # the client reads standard input and sends INPUT
FLAG_JOINED = b"="  # standard error is the very file that standard output is
FLAG_TELL = b"v"  # send PLACED
FLAG_PAUSES = b"t"  # send WARN when its host's owner has it stand still, and when it goes on
FLAG_CHDIR = b"C"  # DIRECTORY is given by -C: the client itself is elsewhere
FLAG_ROOTED = b"/"  # and it was given as an absolute path
FLAG_ASK = b"?"  # run it only if it stays; else AWAY, for another client that knows terminals
FLAG_SHELL = b"s"  # a shell's shim sent it: it leaves only if it is eligible
FLAG_KEPT = b"k"  # the user's own eligibility.never has it
FLAG_BACKGROUND = b"b"  # the client is in the background of its terminal
FLAG_STDERR_APART = b"2"  # with TERMINAL: standard error is none
FLAG_ENDS_LINES = b"o"  # with TERMINAL: ours makes new lines of line feeds, until SCREEN

# keys of HERE, PLACED, DONE and USED
JOB = b"j"
MEASURE = b"l"  # HERE: run it as a child, and send USED at its end
CPU = b"u"  # seconds, user's and system's, children included
PEAK = b"m"  # USED: bytes of memory
REASON = b"r"
STATUS = b"s"
SIGNAL_NUMBER = b"g"
CAUSE = b"c"
ENDED_CPU = b"t"  # DONE: as CPU
VARIABLES = b"v"  # HERE: what it has got of its needs; a line for each, NAME=VALUE
HEARD = b"H"  # DONE: the signals that the command was there to hear, bit N for signal N
ATTEMPT = b"A"  # DONE, of a queued job: the number of its last
