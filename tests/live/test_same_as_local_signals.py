"""Signals to a running command, from its parent or its terminal."""

import pytest
from contract import TELL
from same_as_local import Row, assert_same, lab, table

__all__ = ["lab"]

NAMES = ("INT", "QUIT", "TERM", "HUP", "USR1", "USR2")
TOLD = 'exec lbrun $PYTHON -c "$TELL" ' + " ".join(
    f"SIG{name}" for name in (*NAMES, "WINCH", "CONT")
)

ECHO = "echo ready; while read x; do echo got $x; done"
GOES_ON = ("send 1", "see got 1", "send 2", "see got 2")
LOOP = "echo ready; while :; do sleep 0.05; done"


def waiting(trap="", more="", loop=LOOP):
    return f"exec lbrun sh -c '{trap}{loop}'{more}"


TRAPPED = [
    Row(f"{name}, told", TOLD, env={"TELL": TELL},
        do=("see ready", f"signal {name}", f"see SIG{name}"))
    for name in (*NAMES, "WINCH", "CONT")
]  # fmt: skip

ENDED = [
    Row("KILL", waiting(), status=-9, do=("see ready", "signal KILL")),
    *(Row(f"{name}, trapped and then exit", waiting(f'trap "echo bye; exit 5" {name}; '),
          status=5, do=("see ready", f"signal {name}", "see bye"))
      for name in NAMES if name != "QUIT"),
    *(Row(f"{name}, ignored by the command", f"exec lbrun sh -c 'trap \"\" {name}; {ECHO}'",
          do=("see ready", f"signal {name}", *GOES_ON)) for name in NAMES),
    Row("one of several, in order", TOLD, env={"TELL": TELL},
        do=("see ready", "signal USR1", "see SIGUSR1", "signal USR2", "see SIGUSR2", "signal TERM",
            "see SIGTERM", "signal HUP", "see SIGHUP", "signal INT", "see SIGINT")),
    Row("TERM, then its own end", waiting('trap "echo cleaning; sleep 0.2; exit 0" TERM; '),
        do=("see ready", "signal TERM", "see cleaning")),
    Row("TERM three times", TOLD, env={"TELL": TELL},
        do=("see ready", *("signal TERM", "see SIGTERM") * 3)),
    Row("a shell that waits", "exec lbrun sh -c 'trap \"kill $!; echo got; exit 4\" TERM; "
        "sleep 60 >&- 2>&- & echo ready; wait'", status=4,
        do=("see ready", "signal TERM", "see got")),
]  # fmt: skip

# As from the keyboard: to the whole process group.
GROUP = [
    Row("^C that the command survives", "lbrun sh -c 'trap \"echo got\" INT; "
        "sh -c \"sleep 0.3; echo ready; exec sleep 60\"; echo on; exit 3'; echo $?",
        do=("see ready", "group INT", "see got")),
    Row("^C that the script traps", "trap 'echo mine; exit 8' INT; lbrun sh -c 'echo ready; "
        "exec sleep 60'; echo no", status=8, do=("see ready", "group INT")),
    Row("^C that a Python sees",
        "lbrun $PYTHON -c 'import time\ntry: print(\"ready\", flush=True);"
        " time.sleep(60)\nexcept KeyboardInterrupt: print(\"interrupted\")'",
        do=("see ready", "group INT", "see interrupted")),
    Row("TERM to all", "lbrun sh -c 'echo ready; exec sleep 60'; echo no", status=-15,
        do=("see ready", "group TERM")),
    Row("KILL to all", "lbrun sh -c 'echo ready; exec sleep 60'; echo no", status=-9,
        do=("see ready", "group KILL")),
]  # fmt: skip

STOPPED = [
    Row("TSTP and CONT", "exec lbrun sh -c 'echo ready; read x; echo got $x'",
        do=("see ready", "signal TSTP", "stopped", "signal CONT", "goes on", "send it",
            "see got it")),
    Row("TSTP to the group", "exec lbrun sh -c 'echo ready; read x; echo got $x'",
        do=("see ready", "group TSTP", "stopped", "group CONT", "goes on", "send it",
            "see got it")),
    Row("TERM while it is stopped", waiting('trap "echo bye; exit 5" TERM; '), status=5,
        do=("see ready", "signal TSTP", "stopped", "signal TERM", "signal CONT", "see bye")),
    Row("KILL while it is stopped", waiting(), status=-9,
        do=("see ready", "signal TSTP", "stopped", "signal KILL")),
    Row("STOP of the parent's child", "exec lbrun sh -c 'echo ready; read x; echo got $x'",
        do=("see ready", "signal STOP", "stopped", "signal CONT", "goes on", "send it",
            "see got it")),
]  # fmt: skip

# Sent by other programs.
PROGRAMS = [
    Row("timeout", "timeout 0.3 lbrun sleep 60", status=124),
    Row("timeout -s KILL", "timeout -s KILL 0.3 lbrun sleep 60", status=None),
    Row("timeout --foreground", "timeout --foreground 0.3 lbrun sleep 60", status=124),
    Row("timeout --preserve-status", "timeout --preserve-status 0.3 lbrun sleep 60", status=143),
    Row("timeout -k", "timeout -k 0.3 0.3 lbrun sh -c 'trap \"\" TERM; while :; do sleep 0.05; "
        "done'", status=-9),
    Row("timeout, far", "lbrun timeout 0.3 sleep 60", status=124),
    Row("timeout, in time", "timeout 20 lbrun sh -c 'exit 4'", status=4),
    Row("setsid", "setsid -w lbrun sh -c 'exit 4'", status=4),
    Row("wait, interrupted", "trap 'echo mine' USR1; "
        "lbrun sh -c 'sleep 0.3; echo ready; sleep 0.3; exit 6' & "
        "wait $!; echo $?; wait $!; echo $?", do=("see ready", "signal USR1", "see mine")),
]  # fmt: skip


# What ends a command ends lbrun, what stops it stops lbrun, and lbrun ignores what it ignores.
NOT_TRAPPED = [
    *(Row(f"{name}, not trapped", waiting(), status=-number, do=("see ready", f"signal {name}"))
      for name, number in {"INT": 2, "QUIT": 3, "TERM": 15, "HUP": 1, "USR1": 10, "USR2": 12,
                           }.items()),
    Row("xargs, killed", "seq 3 | xargs -n 1 lbrun sh -c 'kill -TERM $$'", status=125),
    Row("find, killed", "touch a; find a -exec lbrun sh -c 'kill -KILL $$' \\; -print"),
    Row("perl, a signal", "perl -e 'print system(qw(lbrun sh -c), q(kill -9 $$)) & 127'"),
    Row("a wild pointer", "ulimit -c 0; lbrun $PYTHON -c 'import ctypes; ctypes.string_at(0)'",
        status=-11),
    Row("abort()", "ulimit -c 0; lbrun $PYTHON -c 'import os; os.abort()'", status=-6),
    Row("too much CPU time", "ulimit -S -t 1; lbrun $PYTHON -c 'while 1: pass'", status=-24),
    Row("too large a file", "ulimit -f 1; lbrun $PYTHON -c 'import signal as s, os; "
        's.signal(s.SIGXFSZ, s.SIG_DFL); f = open("f", "wb"); f.write(b"x" * 9999)\'', status=-25),
    Row("a failed assertion in C", "printf '#include <assert.h>\\nint main(void){assert(0);}' >a.c;"
        " gcc -o a a.c && ulimit -c 0 && lbrun ./a && echo; rm -f a", status=0),
    Row("$? after a signal", "lbrun sh -c 'kill -TERM $$'; echo $?"),
    Row("$? after KILL", "lbrun sh -c 'kill -KILL $$'; echo $?"),
    Row("$? after SEGV", "lbrun sh -c 'kill -SEGV $$'; echo $?"),
    Row("below a file", "echo >f; lbrun ./f/g", status=126, own_words=True),
    *(Row(f"{name}, ignored by the caller", f"trap '' {name}; exec lbrun sh -c '{ECHO}'",
          do=("see ready", f"signal {name}", *GOES_ON)) for name in (*NAMES, "TSTP")),
    Row("TSTP, ignored by the command", f"exec lbrun sh -c 'trap \"\" TSTP; {ECHO}'",
          do=("see ready", "signal TSTP", *GOES_ON)),
    Row("^C of a simple command", waiting(), status=-2, do=("see ready", "group INT")),
    Row("^C of a script", "lbrun sh -c 'echo ready; exec sleep 60'; echo no", status=-2,
        do=("see ready", "group INT")),
    Row("^C of a pipeline", "lbrun sh -c 'echo ready >&2; exec sleep 60' | lbrun cat; echo no",
        status=-2, do=("see ready", "group INT")),
    Row("^C while waiting for input", "lbrun cat", status=-2,
        do=("send ready", "see ready", "group INT", "ends")),
    Row("^\\", waiting(), status=-3, do=("see ready", "group QUIT")),
    Row("a hang-up of the session", waiting(), status=-1, do=("see ready", "group HUP")),
    Row("stops itself", "exec lbrun sh -c 'echo ready; kill -STOP $$; read x; echo on; exit 3'",
        status=3, do=("see ready", "stopped", "signal CONT", "goes on", "send it", "see on")),
    Row("TSTP that is trapped", 'exec lbrun sh -c \'trap "echo got; exit 2" TSTP; ' + LOOP + "'",
        status=2, do=("see ready", "signal TSTP", "see got")),
    Row("nohup, hung up", f"exec nohup lbrun sh -c '{ECHO}'",
        do=("see ready", "group HUP", *GOES_ON)),
    Row("a background job and INT", "trap : INT; lbrun sh -c 'echo ready; sleep 0.3; echo lives' & "
        "wait; wait", do=("see ready", "group INT", "see lives")),
    Row("a trap in the script", "trap 'echo mine' USR1; lbrun sh -c 'echo ready; sleep 0.3'; "
        "echo after", do=("see ready", "group USR1"), status=None),
]  # fmt: skip


@table([*TRAPPED, *ENDED, *GROUP, *STOPPED, *PROGRAMS, *NOT_TRAPPED])
@pytest.mark.usefixtures("lab")
def test_signalled_the_same(lab, row, tmp_path):
    assert_same(lab, row, tmp_path)
