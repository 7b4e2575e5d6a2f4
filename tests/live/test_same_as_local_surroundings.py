"""A command's surroundings: arguments, environment, directory, limits."""

import pytest
from same_as_local import Row, assert_same, lab, table

__all__ = ["lab"]

SAY_ARGUMENTS = "import sys, os; print([os.fsencode(a) for a in sys.argv[1:]])"
SAY = {"SAY": SAY_ARGUMENTS}
LATIN = b"gr\xfc\xdfe"  # not UTF-8

ARGUMENTS = [
    Row("empty arguments", 'lbrun $PYTHON -c "$SAY" "" a "" ""', env=SAY),
    Row("spaces and quotes", """lbrun $PYTHON -c "$SAY" ' a  b ' "it's" '"' '\\' '$x' '`x`'""",
        env=SAY),
    Row("newlines", "lbrun $PYTHON -c \"$SAY\" $'a\\nb' $'\\n' $'\\r\\n\\t'", env=SAY),
    Row("options of lbrun's", 'lbrun $PYTHON -c "$SAY" -H h9 -- --local -q --help', env=SAY),
    Row("globs", 'lbrun $PYTHON -c "$SAY" "*" "?" "[a]" "~" "{a,b}" "!x" "#"', env=SAY),
    Row("control characters", "lbrun $PYTHON -c \"$SAY\" $'\\x01\\x1b[31m\\x7f'", env=SAY),
    Row("no UTF-8", 'lbrun $PYTHON -c "$SAY" "$WORD"', env={**SAY, "WORD": LATIN}),
    Row("every byte but NUL", 'lbrun $PYTHON -c "$SAY" "$WORD"',
        env={**SAY, "WORD": bytes(range(1, 256))}),
    Row("2000 arguments", 'lbrun $PYTHON -c "$SAY" $(seq 2000)', env=SAY),
    Row("one of 100 KB", 'lbrun $PYTHON -c "$SAY" $(printf %0100000d 0)', env=SAY),
    Row("1.5 MB together", 'w=$(printf %0100000d 0); lbrun sh -c "echo \\$#" $w $w $w $w $w $w $w '
        "$w $w $w $w $w $w $w $w"),
    Row("argv[0]", "lbrun sh -c 'tr \"\\0\" \" \" </proc/$$/cmdline; :'"),
    Row("argv[0] of a link", "ln -s /bin/cat mycat; lbrun ./mycat /proc/self/cmdline"),
    Row("argv[0] found on PATH", "lbrun cat /proc/self/cmdline"),
]  # fmt: skip

# env -i, except for the variables that find the lab.
BARE = "env -i LBD_CONFIG=$LBD_CONFIG LBD_LAB=$LBD_LAB PATH=$PATH"
SHOW = "lbrun env -0 | sed -z '/^\\(LBD_\\|_=\\|PATH=\\)/d' | sort -z | tr '\\0' '\\n'"

ENVIRONMENT = [
    Row("the whole of it", SHOW),
    Row("a bare one", f"{BARE} {SHOW}"),
    Row("empty, with = and newline", "A= B=x=y C=$'a\\nb' lbrun sh -c 'echo \"$A,$B,$C\"'"),
    Row("no UTF-8 in a value", "lbrun sh -c 'printf %s \"$WORD\"'", env={"WORD": LATIN}),
    Row("every byte but NUL in a value", "lbrun sh -c 'printf %s \"$W\"'",
        env={"W": bytes(range(1, 256))}),
    Row("a value of 100 KB", "lbrun sh -c 'echo ${#LONG}'", env={"LONG": "x" * 100_000}),
    Row("odd names", "env a.b=1 c-d=2 9=3 lbrun env | grep -a '^[a.c9-]*='"),
    Row("1000 variables", "for i in $(seq 1000); do export v$i=$i; done; "
        "lbrun env | grep '^v[0-9]' | sort | sha256sum"),
    Row("unset", "unset HOME; lbrun sh -c 'echo ${HOME-unset}'"),
    Row("an exported function", "f() { echo hello $1; }; export -f f; lbrun bash -c 'f you'"),
    Row("what shells set", "export IFS=, PS1=x OLDPWD=/old SHLVL=7; lbrun bash -c 'echo $SHLVL'"),
    Row("locale", "LC_ALL= LANG=C.UTF-8 LC_NUMERIC=C lbrun $PYTHON -c 'import os; "
        "print({k: v for k, v in os.environ.items() if k[:2] in (\"LC\", \"LA\")})'"),
    Row("TERM", "TERM=vt100 COLUMNS=33 lbrun sh -c 'echo $TERM $COLUMNS'"),
    Row("TZ", "TZ=Asia/Kathmandu lbrun date -d @0 +%H:%M"),
    Row("TMPDIR", "mkdir t; TMPDIR=$PWD/t lbrun mktemp -u | sed 's/[^/]*$//'"),
    Row("PATH with the directory first", "mkdir b; printf '#!/bin/sh\\necho mine\\n' >b/cat; "
        "chmod +x b/cat; PATH=$PWD/b:$PATH lbrun cat"),
    Row("PATH with an empty element", "printf '#!/bin/sh\\necho mine\\n' >tool_; chmod +x tool_; "
        "PATH=:$PATH lbrun tool_"),
    Row("PATH with a relative element", "mkdir b; printf '#!/bin/sh\\necho mine\\n' >b/tool_; "
        "chmod +x b/tool_; PATH=b:$PATH lbrun tool_"),
    Row("PATH, first a directory of that name", "mkdir -p a/tool_ b; ln -s /bin/echo b/tool_; "
        "PATH=$PWD/a:$PWD/b:$PATH lbrun tool_ found"),
    Row("PATH, first not executable", "mkdir a b; echo >a/tool_; ln -s /bin/echo b/tool_; "
        "PATH=$PWD/a:$PWD/b:$PATH lbrun tool_ found"),
    Row("a relative command", "mkdir b; ln -s /bin/echo b/tool; lbrun b/tool found"),
    Row("a command above", "ln -s /bin/echo tool; mkdir b; cd b; lbrun ../tool found"),
]  # fmt: skip

DIRECTORY = [
    Row("spaces", "mkdir 'a b'; cd 'a b'; lbrun pwd"),
    Row("unicode and newline", "mkdir $'ü\\n☃'; cd $'ü\\n☃'; lbrun pwd; lbrun touch made"),
    Row("no UTF-8 in its name", 'mkdir "$WORD"; cd "$WORD"; lbrun pwd; lbrun touch made',
        env={"WORD": LATIN}),
    Row("a file name, no UTF-8", 'lbrun touch "$WORD"; lbrun ls -b', env={"WORD": LATIN}),
    Row("symlinked, logical", "mkdir d; ln -s d l; cd l; lbrun sh -c 'pwd; pwd -P; echo $PWD'"),
    Row("symlinked, PWD not set", "mkdir d; ln -s d l; cd l; env -u PWD lbrun sh -c 'pwd'"),
    Row("PWD that lies", "PWD=/usr lbrun $PYTHON -c 'import os; print(os.getcwd(), "
        "os.environ[\"PWD\"])'"),
    Row("the root", "cd /; lbrun sh -c 'pwd; ls -d etc'"),
    Row("deep", "for i in $(seq 40); do mkdir -p dir_number_$i; cd dir_number_$i; done; lbrun pwd"),
    Row("OLDPWD", "mkdir d; cd d; lbrun bash -c 'cd -' | sed 's/.*work/work/'"),
    Row("files it makes", "lbrun sh -c 'mkdir -p a/b; echo x >a/b/f; ln -s a l; ln a/b/f g'"),
]  # fmt: skip

LIMITS = [
    *(
        Row(f"ulimit -{letter} {value}", f"ulimit -{letter} {value}; "
            f"lbrun bash -c 'ulimit -S{letter}; ulimit -H{letter}'")
        for letter, value in {
            "n": 200, "c": 1000, "f": 5000, "s": 4096, "t": 500, "d": 9000000, "l": 32, "u": 5000,
            "v": 9000000, "q": 4000, "i": 500, "e": 10, "r": 3,
        }.items()
    ),
    Row("ulimit -S -n", "ulimit -S -n 99; lbrun bash -c 'ulimit -n; ulimit -Hn'"),
    Row("ulimit, all", "lbrun bash -c 'ulimit -a; ulimit -Ha'"),
    *(Row(f"umask {mask}", f"umask {mask}; lbrun sh -c 'umask; touch f; mkdir d'")
      for mask in ("000", "022", "077", "027")),
    *(Row(f"nice {nice}", f"nice -n {nice} lbrun nice") for nice in (0, 5, 19)),
    Row("less nice inside", "lbrun nice -n 3 nice"),
    Row("identity", "lbrun id"),
    Row("hostname", "lbrun uname -a"),
    Row("signal masks", "lbrun grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"),
    Row("dropped groups", "setpriv --clear-groups lbrun id"),
    Row("capabilities", "lbrun grep Cap /proc/self/status"),
]  # fmt: skip


# What else a process inherits.
CARRIED = [
    Row("ignored signals", "trap '' HUP USR1 TERM; "
        "lbrun sh -c 'kill -HUP $$; kill -USR1 $$; kill -TERM $$; echo lives'"),
    Row("nohup", "nohup lbrun sh -c 'kill -HUP $$; echo lives'"),
    Row("no_new_privs", "setpriv --no-new-privs lbrun grep NoNewPrivs /proc/self/status"),
    Row("limits that Linux no longer enforces",
        "ulimit -m 9000000 -x 77; lbrun bash -c 'ulimit -m -x'"),
]  # fmt: skip


@table([*ARGUMENTS, *ENVIRONMENT, *DIRECTORY, *LIMITS, *CARRIED])
@pytest.mark.usefixtures("lab")
def test_finds_the_same(lab, row, tmp_path):
    assert_same(lab, row, tmp_path)
