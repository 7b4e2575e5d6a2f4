"""The protocol of `lbrun` and the LBM on lbm.sock: tags of frames, and keys of their fields.

The LBM answers every request within a moment, if only with TAKEN; a stopped one answers nothing.
`lbrun` sends RUN and gets either HERE (run it yourself: exec; NOT_RUN if that fails) or, when the
command goes elsewhere, GIVE, and DONE at its end. It answers GIVE with DESCRIPTORS, to which the
caller's open ones among 0, 1, 2 are attached (SCM_RIGHTS). They are not sent sooner, because in the
queue of a stopped LBM they would keep the caller's pipes open. Closing the connection before DONE
ends the command.
Numbers are decimal text.
"""

# client -> LBM
RUN = b"R"
QUEUE = b"q"  # like RUN, with the keys of QUEUE below: to the queue. Answered by QUEUED
LOCAL = b"L"  # the command runs here: HERE is only wanted for the job's id
DESCRIPTORS = b"F"
SIGNAL = b"S"  # body: one byte
FORCE = b"K"
USED = b"U"  # a measured command has ended: JOB, CPU, STATUS
NOT_RUN = b"x"  # after HERE: it could not be run here after all: STATUS, REASON
PIPE = b"p"  # one end of a pipe is attached: the answer to PACK and UNPACK
STAGED = b"k"  # the packer or unpacker has ended; body: the error, or empty
INPUT = b"I"  # terminal input read by the client; empty = end of file
READY = b"w"  # after DESCRIPTORS, with a terminal to read: its modes are set
RESIZE = b"Z"  # the terminal's new size, as in TERMINAL
SET_MODES = b"M"  # the terminal's modes have changed, as in MODES
RESTORED = b"r"  # after DONE: the terminal is as it was
GROUND = b"B"  # one byte: 1 the client is now in the background, 0 in the foreground
# LBM -> client
TAKEN = b"T"  # the request has been read; sent when the answer takes a while
UNFIT = b"O"  # the LBM cannot take this request; body: why. Nothing ran
HERE = b"H"
AWAY = b"V"  # reply to FLAG_ASK: it would leave; nothing was done yet
GIVE = b"G"
PACK = b"C"  # pack the files to send; body: the limits "BYTES FILES"
UNPACK = b"E"  # unpack the fetched files; body: "BYTES FILES STATUS", the command's status
PLACED = b"P"  # the command has begun on another host
WARN = b"W"  # body: a line for stderr
INPUT_TAKEN = b"A"  # the last INPUT is consumed: read more
SCREEN = b"Q"  # from here on the terminal passes output through unchanged
STOPPED = b"Y"  # the command has stopped; it continues after SIGCONT
WANTED = b"N"  # the client is in the background, and the command reads its terminal: stop
DONE = b"D"
QUEUED = b"j"  # the job is on disk; body: its id
WAITS = b"z"  # for QUEUE without FLAG_DETACH: the job waits; body: why
PROGRESS = b"g"  # for QUEUE with FLAG_PROGRESS; body: the array's progress in one line
OUTPUT = b"1"  # for QUEUE without FLAG_DETACH: the job's output, unchanged
ERRORS = b"2"

# Keys of RUN and LOCAL
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
DEPTH = b"H"  # depth of nested lbruns
IGNORED = b"i"  # the signals the caller ignores: bit N - 1 for signal N
SEND = b"S"  # a path to send, relative to DIRECTORY; repeatable, like FETCH
FETCH = b"E"  # a path to fetch
LET_THROUGH = b"k"  # a variable given with -e: passed on although environment.deny names it
TERMINAL = b"T"  # present: the command wants a terminal; "rows columns xpixels ypixels"
SLOTS = b"N"  # -n, "least-most"; in HERE: the number free here
NEEDS = b"R"  # resources and features, in the form of text/needs_words.py
MODES = b"y"  # of the caller's terminal: termios as text (launch/terminal_modes.py)

# Keys of QUEUE
ARRAY = b"A"  # indexes in the form of text/index_list.py, with %N for the number at once
KEY = b"I"  # idempotency key
INPUT_DATA = b"D"  # the job's standard input
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
FLAG_DETACH = b"d"  # with QUEUE: the client does not wait for the end
FLAG_NO_RESTART = b"R"
FLAG_APPEND = b"A"  # with QUEUE: append to OUTPUT_FILE and ERROR_FILE
FLAG_GANG = b"g"  # with QUEUE and ARRAY: start all tasks together or none
FLAG_PROGRESS = b"P"  # with QUEUE and ARRAY: send PROGRESS
FLAG_NO_STDIN = b"i"
FLAG_TERMINAL_INPUT = b"p"  # the client reads standard input and sends INPUT
FLAG_JOINED = b"="  # standard error is the same file as standard output
FLAG_TELL = b"v"  # send PLACED
FLAG_PAUSES = b"t"  # send WARN when the owner of its host has it suspended, and when it continues
FLAG_CHDIR = b"C"  # DIRECTORY was given with -C: the client itself is in another one
FLAG_ROOTED = b"/"  # it was given as an absolute path
FLAG_ASK = b"?"  # run it only if it stays; else send AWAY, for a client that handles terminals
FLAG_SHELL = b"s"  # a shell's shim sent it: it leaves only if it is eligible
FLAG_KEPT = b"k"  # the user's own eligibility.never names it
FLAG_BACKGROUND = b"b"  # the client is in the background of its terminal
FLAG_STDERR_APART = b"2"  # with TERMINAL: standard error is not a terminal
FLAG_ENDS_LINES = b"o"  # with TERMINAL: ours maps line feed to new line, until SCREEN

# Keys of HERE, PLACED, DONE and USED
JOB = b"j"
MEASURE = b"l"  # HERE: run it as a child, and send USED at its end
CPU = b"u"  # CPU seconds, user and system, including children
PEAK = b"m"  # USED: peak memory in bytes
REASON = b"r"
STATUS = b"s"
SIGNAL_NUMBER = b"g"
CAUSE = b"c"
ENDED_CPU = b"t"  # DONE: like CPU
VARIABLES = b"v"  # HERE: variables for the resources assigned; one line each, NAME=VALUE
HEARD = b"H"  # DONE: signals sent while the command was alive, or that it ignored: bit N for N
ATTEMPT = b"A"  # DONE, for a queued job: the number of its last attempt
