"""How a command ends, as its parent sees it: the same here and through lbrun."""

import pytest
from same_as_local import Row, assert_same, lab, table

__all__ = ["lab"]

CODES = [
    Row(f"exit {code}", f"lbrun sh -c 'exit {code}'", status=code)
    for code in (0, 1, 2, 99, 124, 125, 126, 127, 128, 130, 137, 143, 254, 255)
]

FAULTS = [
    Row("a negative exit status", "lbrun $PYTHON -c 'import os; os._exit(-1)'", status=255),
    Row("a Python exception", "lbrun $PYTHON -c '1/0'", status=1),
]

# `kill` has reached a part of it.
SHELLS = [
    Row("$? after PIPE", "lbrun sh -c 'kill -PIPE $$'; echo $?"),
    Row("INT, by its own hand", "lbrun sh -c 'kill -INT $$'; echo goes on"),
    Row("a child that was killed",
        "lbrun sh -c 'sh -c \"kill -KILL \\$\\$\"; exit $?'", status=137),
    Row("set -e", "set -e; lbrun sh -c 'exit 3'; echo not reached", status=3),
    Row("set -e, true", "set -e; lbrun true; echo reached"),
    Row("! and ||", "! lbrun false && lbrun false || echo $?"),
    Row("if and while", "if lbrun true; then echo y; fi; while lbrun false; do echo n; done"),
    Row("a pipe's statuses", "lbrun sh -c 'exit 3' | lbrun sh -c 'cat; exit 4' | lbrun true; "
        'echo "${PIPESTATUS[@]}"'),
    Row("pipefail", "set -o pipefail; lbrun sh -c 'exit 3' | lbrun cat; echo $?"),
    Row("wait $!", "lbrun sh -c 'exit 7' & wait $!; echo $?"),
    Row("wait for several", "for i in 1 2 3; do lbrun sh -c \"exit $i\" & p[$i]=$!; done; "
        "for i in 3 2 1; do wait ${p[$i]}; echo $?; done"),
    Row("wait -n", "lbrun sh -c 'exit 5' & wait -n; echo $?"),
    Row("kill %1", "set -m; lbrun sleep 60 & kill %1; wait %1; echo $?"),
    Row("kill $!", "lbrun sleep 60 & kill $!; wait $!; echo $?"),
    Row("kill -9 $!", "lbrun sleep 60 & kill -9 $!; wait $!; echo $?"),
    Row("a trap on EXIT", "trap 'echo bye $?' EXIT; lbrun sh -c 'exit 3'; exit $?", status=3),
    Row("a trap on ERR", "trap 'echo err $?' ERR; lbrun sh -c 'exit 3'; echo $?"),
    Row("a trap on CHLD", "trap 'echo child' CHLD; lbrun true; lbrun true; :"),
    Row("exec", "exec lbrun sh -c 'echo in; exit 6'; echo not reached", status=6),
    Row("a subshell", "(lbrun sh -c 'exit 6'; echo $?; exit 7)", status=7),
    Row("$(…)", "x=$(lbrun sh -c 'echo out; exit 6'); echo $? $x"),
    Row("coproc", "coproc lbrun cat; echo line >&${COPROC[1]}; read -u ${COPROC[0]} x; echo $x; "
        "exec {COPROC[1]}>&-; wait"),
]  # fmt: skip

# lbrun's wording may differ from env's, but not the reason and the status.
NEVER_BEGAN = [
    Row("not found", "lbrun no-such-command_", status=127, own_words=True),
    Row("not found, with a slash", "lbrun ./none", status=127, own_words=True),
    Row("an empty name", "lbrun ''", status=127, own_words=True),
    Row("a directory", "mkdir d; lbrun ./d", status=126, own_words=True),
    Row("/", "lbrun /", status=126, own_words=True),
    Row("not executable", "echo echo >f; lbrun ./f", status=126, own_words=True),
    Row("not executable, on PATH", "echo echo >f_; PATH=$PWD:$PATH lbrun f_", status=126,
        own_words=True),
    Row("a symlink to nothing", "ln -s none l; lbrun ./l", status=127, own_words=True),
    Row("a symlink to itself", "ln -s l l; lbrun ./l", status=126, own_words=True),
    Row("too long a name", "lbrun ./$(printf %0300d 0)", status=126, own_words=True),
    Row("no interpreter", "printf '#!/no/such\\n' >f; chmod +x f; lbrun ./f", status=127,
        own_words=True),
    Row("an interpreter that is none", "printf '#!/etc\\n' >f; chmod +x f; lbrun ./f", status=126,
        own_words=True),
    Row("no interpreter named", "echo 'echo ran $0 $@' >f; chmod +x f; lbrun ./f 1 2"),
    Row("an empty file", ": >f; chmod +x f; lbrun ./f"),
    Row("a fifo", "mkfifo f; chmod +x f; lbrun ./f", status=126, own_words=True),
    Row("too long an argument", "lbrun true $(printf %0200000d 0)", status=126, own_words=True),
    Row("shebang", "printf '#!/bin/sh\\necho $0 $@; exit 3\\n' >f; chmod +x f; lbrun ./f a b",
        status=3),
    Row("shebang with an argument", "printf '#!/bin/sh -e\\nfalse; echo no\\n' >f; chmod +x f; "
        "lbrun ./f", status=1),
    Row("shebang by env -S", "printf '#!/usr/bin/env -S sh -e\\nfalse; echo no\\n' >f; "
        "chmod +x f; lbrun ./f", status=1),
    Row("shebang, CR at its end", "printf '#!/bin/sh\\r\\ntrue\\n' >f; chmod +x f; lbrun ./f",
        status=127, own_words=True),
    Row("a symlink's name", "ln -s /bin/sh mysh; lbrun ./mysh -c 'echo $0'"),
    Row("a busy text file", "cp /bin/sleep s; exec 9>>s; lbrun ./s 0", status=126, own_words=True),
]  # fmt: skip


# It kills itself, as `kill` from elsewhere would.
BY_A_SIGNAL = [
    Row(f"dies of {name}", f"lbrun sh -c 'echo last words; kill -{name} $$'", status=-number)
    for name, number in {
        "HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8,
        "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
        "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "SYS": 31, "40": 40,
    }.items()
]  # fmt: skip


@table([*CODES, *FAULTS, *SHELLS, *NEVER_BEGAN, *BY_A_SIGNAL])
@pytest.mark.usefixtures("lab")
def test_ends_the_same(lab, row, tmp_path):
    assert_same(lab, row, tmp_path)
