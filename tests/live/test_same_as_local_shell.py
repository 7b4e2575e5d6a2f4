"""What scripts and other programs do with a command is the same here and through lbrun."""

import pytest
from same_as_local import Row, assert_same, lab, table

__all__ = ["lab"]

TREE = "mkdir -p t/d; echo one >t/a; echo two >t/d/b; ln -s a t/l; chmod 700 t/d; "
C_PROGRAM = "printf '#include <stdio.h>\\nint main(void){puts(\"hello\");return 3;}\\n' >a.c; "

STARTED_BY = [
    Row("xargs", "seq 5 | xargs lbrun echo"),
    Row("xargs -n 1", "seq 5 | xargs -n 1 lbrun echo"),
    Row("xargs -P", "seq 12 | xargs -P 4 -n 1 lbrun sh -c 'echo $0 >f$0'"),
    Row("xargs, a failure", "seq 3 | xargs -n 1 lbrun sh -c 'exit $0'", status=123),
    Row("xargs, 255", "seq 3 | xargs -n 1 lbrun sh -c 'echo $0; exit 255'", status=124),
    Row("xargs, not found", "echo | xargs lbrun no-such-command_", status=123, own_words=True),
    Row("xargs -0", "printf 'a b\\0c\\nd\\0' | xargs -0 -n 1 lbrun printf '<%s>\\n'"),
    Row("find -exec ;", "touch a b c; find . -name '[abc]' -exec lbrun basename {} \\; | sort"),
    Row("find -exec +", "touch a b c; find . -name '[abc]' -exec lbrun ls {} + | sort"),
    Row("env -i", "env -i LBD_CONFIG=$LBD_CONFIG LBD_LAB=$LBD_LAB PATH=$PATH A=1 "
        "lbrun sh -c 'echo $A ${HOME-no home}'"),
    Row("exec -a", "(exec -a other lbrun echo text)"),
    Row("env A=1", "env A=1 lbrun sh -c 'echo $A'"),
    Row("nice", "nice -n 7 lbrun nice"),
    Row("nohup", "nohup lbrun sh -c 'echo out; echo err >&2; exit 4'", status=4),
    Row("time", "TIMEFORMAT=timed; time lbrun sh -c 'exit 4'", status=4),
    Row("stdbuf", "stdbuf -o0 lbrun echo text"),
    Row("sh -c", "sh -c 'lbrun echo text; exit 3'", status=3),
    Row("sh -s", "sh -s", b"lbrun echo from stdin </dev/null\nexit 5\n", here="", status=5),
    Row("make",
        "printf 'all: a b\\na b:\\n\\tlbrun sh -c \"echo $@ >$@\"\\n' >Makefile; make -s -j2"),
    Row("make, a failure", "printf 'all:\\n\\tlbrun false\\n' >Makefile; make -s", status=2),
    Row("make, killed",
        "printf 'all:\\n\\tlbrun sh -c \"kill -KILL \\\\$\\\\$\\\\$\\\\$\"\\n' >Makefile; "
        "make -s", status=2),
    Row("python, subprocess", "$PYTHON -c 'import subprocess as s, sys; "
        "print(s.run(sys.argv[1:], input=b\"abc\", capture_output=True))' "
        "lbrun tr a-z A-Z | sed 's/args=.*, returncode/returncode/'"),
    Row("perl, system", "perl -e 'print system(\"lbrun sh -c \\\"exit 3\\\"\") >> 8, \"\\n\"'"),
    Row("perl, backquotes", "perl -e 'print `lbrun echo text`, $?, \"\\n\"'"),
    Row("split --filter", "seq 10 | split -l 5 --filter='lbrun sh -c \"cat; echo \\$FILE\"'"),
    Row("tar -I", "echo x >f; tar -c -I 'lbrun gzip' -f a.tgz f; tar -tf a.tgz; rm a.tgz"),
    Row("git bisect-like loop", "for n in 1 2 3 4; do lbrun test $n -lt 3 || break; done; echo $n"),
]  # fmt: skip

IN_ITSELF = [
    Row("lbrun in lbrun", "lbrun lbrun echo text"),
    Row("lbrun in lbrun, status", "lbrun lbrun sh -c 'echo err >&2; exit 9'", status=9),
    Row("lbrun in lbrun, input", "echo text | lbrun lbrun lbrun cat"),
    Row("lbrun in a far script", "lbrun sh -c 'lbrun echo a; lbrun sh -c \"exit 3\"; echo $?'"),
    Row("two at once far", "lbrun sh -c 'lbrun echo a | lbrun tr a b'"),
]  # fmt: skip

TOOLS = [
    Row("cc", C_PROGRAM + "lbrun gcc -c a.c -o a.o && lbrun gcc a.o -o a && lbrun ./a", status=3),
    Row("cc, an error", "echo 'int main(void) { return x; }' >a.c; lbrun gcc -c a.c", status=1),
    Row("cc from stdin", "echo 'int f(void) { return 1; }' | lbrun gcc -x c -c - -o a.o"),
    Row("cc -E", "echo '__STDC_VERSION__' | lbrun gcc -E -P -"),
    Row("as in a pipe", C_PROGRAM + "lbrun gcc -S a.c -o - | lbrun as -o a.o && lbrun nm a.o"),
    Row("cmp", "echo a >f; echo b >g; lbrun cmp f g", status=1),
    Row("cmp, nothing there", "echo a >f; lbrun cmp f g", status=2),
    Row("diff", "echo a >f; echo b >g; lbrun diff f g", status=1),
    Row("diff, nothing there", "echo a >f; lbrun diff f g", status=2),
    Row("diff of two pipes", "seq 3 >f; seq 2 4 | lbrun diff f -", status=1),
    Row("grep -q", "seq 100000 | lbrun grep -q 5; echo $?"),
    Row("grep, nothing", "lbrun grep x /dev/null", status=1),
    Row("grep, no file", "lbrun grep x none", status=2),
    Row("tee", "echo text | lbrun tee f g"),
    Row("tee from far to near", "lbrun echo text | tee f | lbrun cat"),
    Row("dd", "seq 10000 | lbrun dd bs=512 count=10 2>/dev/null | sha256sum"),
    Row("dd, to a file", "lbrun dd if=/dev/zero of=f bs=1000 count=3 2>/dev/null"),
    Row("dd conv=notrunc", "echo 123456 >f; printf ab | lbrun dd of=f conv=notrunc 2>/dev/null"),
    Row("tar both ways", TREE + "tar c t | lbrun sh -c 'mkdir u && tar x -C u'; ls -lR u | "
        "sed 's/ .*:../ /'"),
    Row("tar, far to near", TREE + "lbrun tar c t | (mkdir u; tar x -C u)"),
    Row("cpio-like", TREE + "find t | lbrun sort"),
    Row("gzip both ways", "seq 10000 | lbrun gzip -n | lbrun gunzip | sha256sum"),
    Row("sort, large", "seq 50000 | lbrun sort -r | sha256sum"),
    Row("sed -i", "echo one >f; lbrun sed -i s/one/two/ f"),
    Row("awk", "seq 10 | lbrun awk '{ s += $1 } END { print s }'"),
    Row("python reading a script", "echo 'print(input())' >p.py; echo text | lbrun $PYTHON p.py"),
    Row("python from stdin", "echo 'print(1 + 1)' | lbrun $PYTHON -"),
    Row("bash from stdin", "printf 'echo a\\nexit 3\\n' | lbrun bash", status=3),
    Row("bash reading what follows", "printf 'read x\\nline\\necho got $x\\n' | lbrun bash"),
    Row("mkfifo between two",
        "mkfifo p; lbrun sh -c 'seq 1000 >p' & lbrun sha256sum p; wait; rm p"),
    Row("flock", "lbrun flock lock sh -c 'echo a'; lbrun flock -n lock true; echo $?"),
    Row("mv, cp, ln, rm", "echo x >f; lbrun cp -p f g; lbrun mv f h; lbrun ln h i; lbrun rm h"),
    Row("touch, chmod", "lbrun touch -d @1000000 f; lbrun chmod 4751 f; stat -c '%Y %a' f"),
    Row("a deleted file still open", "echo text >f; exec 3<f; rm f; lbrun cat <&3"),
    Row("test -t", "for fd in 0 1 2; do lbrun test -t $fd; echo $?; done"),
    Row("tty", "lbrun tty", status=1),
]  # fmt: skip

SCRIPTS = [
    Row("a loop", "for i in 1 2 3; do lbrun echo $i; done"),
    Row("nested substitution", "echo $(lbrun echo $(lbrun echo a) b)"),
    Row("a function", "f() { lbrun sh -c 'echo $0; exit 4' $1; }; f x; echo $?"),
    Row("many in the background",
        "for i in $(seq 10); do lbrun sh -c \"echo $i >f$i\" & done; wait"),
    Row("a long pipeline", "seq 9 | lbrun cat | lbrun cat | lbrun cat | lbrun tac"),
    Row("a pipeline of sleeps", "lbrun sleep 0.1 | lbrun sleep 0.2 | lbrun echo done"),
    Row("here-document of 1 MB", "lbrun wc -c <<END\n$(seq 150000)\nEND"),
    Row("output of both, captured", "x=$(lbrun sh -c 'echo o; echo e >&2' 2>&1); echo \"[$x]\""),
    Row("set -x", "set -x; lbrun echo a 2>&1"),
    Row("mapfile", "mapfile -t a < <(lbrun seq 3); echo ${#a[@]} ${a[2]}"),
    Row("select from the rest", "printf 'a\\nb\\nc\\n' | { read x; lbrun cat; }"),
    Row("a child that outlives nothing", "lbrun sh -c 'sleep 0.2 & wait; echo done'"),
    Row("a zombie maker", "lbrun $PYTHON -c 'import os; [os._exit(3) for _ in range(9) "
        "if not os.fork()]; print(\"made\")'"),
    Row("fork without wait", "lbrun bash -c 'for i in 1 2 3; do sleep 0.05 & done; "
        "echo $(jobs | wc -l)'"),
    Row("exec in the command", "lbrun sh -c 'exec sh -c \"exec cat\"'", b"text"),
]  # fmt: skip


@table([*STARTED_BY, *IN_ITSELF, *TOOLS, *SCRIPTS])
@pytest.mark.usefixtures("lab")
def test_used_the_same(lab, row, tmp_path):
    assert_same(lab, row, tmp_path)
