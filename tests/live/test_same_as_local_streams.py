"""The bytes through a command, and its descriptors, are the same here and through lbrun."""

import itertools

import pytest
from same_as_local import Row, assert_same, lab, table

__all__ = ["lab"]

EVERY_BYTE = bytes(range(256)) * 300
LINES = b"".join(b"line %d\n" % number for number in range(20_000))

# A socketpair between us and a command as its input, or its output.
SOCKET = """
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
job = subprocess.Popen(sys.argv[1:], stdin=theirs)
theirs.close()
ours.sendall(sys.stdin.buffer.read())
ours.shutdown(socket.SHUT_WR)
sys.exit(job.wait())
"""
SOCKET_OUT = """
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
job = subprocess.Popen(sys.argv[1:], stdout=theirs, stdin=subprocess.DEVNULL)
theirs.close()
while piece := ours.recv(4096):
    os.write(1, piece)
sys.exit(job.wait())
"""

CLOSED = [
    Row(f"closed: {' '.join(which)}",
        "lbrun sh -c 'for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && open=\"$open$fd\"; done; "
        f"echo $open >seen; echo out; echo err >&2; exit 3' {' '.join(which)}", status=3)
    for count in (1, 2, 3)
    for which in itertools.combinations(("<&-", ">&-", "2>&-"), count)
]  # fmt: skip

KINDS = [
    Row("every byte", "lbrun cat", EVERY_BYTE),
    Row("every byte to stderr", "lbrun sh -c 'cat >&2'", EVERY_BYTE),
    Row("NUL bytes", "lbrun tr -d x", b"\0x" * 5000 + b"\0"),
    Row("invalid UTF-8", "lbrun od -c", b"\xff\xfe\xc3("),
    Row("no input", "lbrun wc -c", b""),
    Row("one byte", "lbrun wc -c", b"x"),
    Row("no newline at the end", "lbrun sh -c 'cat; printf end'", b"text"),
    Row("/dev/null", "lbrun sh -c 'cat; echo end' </dev/null >/dev/null"),
    Row("/dev/null is itself",
        "lbrun sh -c 'stat -Lc %t:%T /proc/self/fd/1 >&2' 2>&1 >/dev/null"),
    Row("all to /dev/null", "lbrun sh -c 'echo out; echo err >&2; echo file >f' >/dev/null 2>&1"),
    Row("errors to /dev/null", "lbrun sh -c 'echo out; echo err >&2' 2>/dev/null"),
    Row("one goes to /dev/null", "lbrun sh -c 'yes | head -c 1000000; echo err >&2' >/dev/null"),
    Row("in from /dev/zero", "lbrun head -c 100000 </dev/zero | sha256sum"),
    Row("a file both ways", "printf 'one\\ntwo\\n' >f; lbrun cat <f >g; cat g"),
    Row("append", "echo 1 >f; lbrun echo 2 >>f; echo 3 >>f"),
    Row("a shared offset out", "{ echo 1; lbrun echo 2; echo 3; } >f"),
    Row("a shared offset, two at once",
        "{ lbrun echo aa & lbrun echo bb & wait; } >f; sort f; rm f"),
    Row("a shared offset in", "printf '1\\n2\\n' >f; { lbrun cat; cat; } <f"),
    Row("a shared offset in, read late",
        "printf '1\\n2\\n' >f; { lbrun sh -c 'sleep 0.2; read x; echo $x'; cat; } <f"),
    Row("a shared offset in, all read late",
        "printf '1\\n2\\n' >f; { lbrun sh -c 'sleep 0.2; cat'; cat; } <f"),
    Row("a shared offset in, not read", "printf '1\\n2\\n' >f; { lbrun sleep 0.1; cat; } <f"),
    Row("a shared offset in, read first", "printf '1\\n2\\n' >f; { read x; lbrun cat; } <f"),
    Row("over what was there", "echo long text >f; lbrun printf xy 1<>f"),
    Row("out and err swapped", "lbrun sh -c 'echo out; echo err >&2' 3>&1 >&2 2>&3"),
    Row("a socket as input", "echo text | $PYTHON -c \"$SOCKET\" lbrun sh -c 'cat; echo end'",
        env={"SOCKET": SOCKET}),
    Row("a socket as output", "$PYTHON -c \"$SOCKET_OUT\" lbrun sh -c 'cat; echo end'",
        env={"SOCKET_OUT": SOCKET_OUT}),
    Row("a fifo", "mkfifo p; echo text >p & lbrun cat <p; wait; rm p"),
    Row("a fifo it opens itself", "mkfifo p; echo text >p & lbrun cat p; wait; rm p"),
    Row("a here-document", "lbrun cat <<'END'\nsome $text\nEND"),
    Row("a here-string", "lbrun tr a-z A-Z <<<text"),
    Row("process substitution, output", "lbrun sh -c 'echo out; echo err >&2' > >(cat >f) 2> "
        ">(cat >g); sleep 0.2"),
    Row("process substitution, input", "lbrun cat < <(echo text)"),
    Row("/dev/stdin", "echo text | lbrun cat /dev/stdin"),
    Row("/dev/fd/0", "echo text | lbrun cat /dev/fd/0"),
    Row("/proc/self/fd/0", "echo text | lbrun cat /proc/self/fd/0"),
    Row("/dev/stdin from a file", "echo text >f; lbrun cat /dev/stdin <f"),
    Row("/dev/stdout", "lbrun sh -c 'echo text >/dev/stdout'"),
    Row("/dev/stderr", "lbrun sh -c 'echo text >/dev/stderr' 2>&1 | cat"),
    Row("tee /dev/stderr", "lbrun tee /dev/stderr", LINES),
    Row("no descriptor but three", "exec 5</etc/passwd 7>f; lbrun $PYTHON -c 'import os; "
        "print(sorted(map(int, os.listdir(\"/proc/self/fd\")))[:3])' 5<&- 7>&-"),
]  # fmt: skip

ENDS = [
    Row("yes | head", "lbrun yes | head -n 1; echo ${PIPESTATUS[@]}"),
    Row("yes | head, all far", "lbrun yes | lbrun head -n 1; echo ${PIPESTATUS[@]}"),
    Row("yes to stderr", "{ lbrun sh -c 'exec yes >&2' 2>&1 >&3 | head -n 1; } 3>/dev/null; "
        "echo ${PIPESTATUS[@]}"),
    Row("a reader that takes nothing", "lbrun yes | true; echo ${PIPESTATUS[@]}"),
    Row("an endless writer", "yes | lbrun head -n 2; echo ${PIPESTATUS[@]}"),
    Row("input nobody reads", "yes | lbrun true; echo ${PIPESTATUS[@]}"),
    Row("input closed by the command", "yes | lbrun sh -c 'exec <&-; sleep 0.3; echo end'; "
        "echo ${PIPESTATUS[@]}"),
    Row("output closed by the command", "lbrun sh -c 'exec >&-; sleep 0.3; echo end >&2' | wc -c"),
    Row("input open, command ends", "lbrun echo done", do=("see done",)),
    Row("the end after an answer", "lbrun sh -c 'read x; echo got $x; cat; echo end'",
        do=("send one", "see got one", "close", "see end")),
    Row("a dialogue", "lbrun sh -c 'while read x; do echo o$x; echo e$x >&2; done'",
        do=("send 1", "see o1", "see e1", "send 2", "see o2", "see e2", "close")),
    Row("first byte before the end", "lbrun sh -c 'printf x; read y; echo z'",
        do=("see x", "send", "see z")),
    Row("left for the next, --no-stdin", "printf '1\\n2\\n' | { lbrun --no-stdin cat; cat; }",
        here="printf '1\\n2\\n' | { lbrun cat </dev/null; cat; }"),
    Row("a loop with --no-stdin",
        "seq 5 | while read n; do lbrun --no-stdin sh -c \"cat; echo $n\"; done",
        here="seq 5 | while read n; do lbrun sh -c \"cat; echo $n\" </dev/null; done"),
    Row("a loop that is eaten", "seq 5 | while read n; do lbrun cat; echo $n; done"),
]  # fmt: skip

MUCH = [  # 24 MiB: three times what may be in flight
    Row("24 MiB through", "head -c 25165824 /dev/zero | lbrun cat | sha256sum"),
    Row("24 MiB in", "head -c 25165824 /dev/zero | lbrun sha256sum"),
    Row("24 MiB out", "lbrun head -c 25165824 /dev/zero | sha256sum"),
    Row("16 MiB to stderr", "lbrun sh -c 'head -c 16777216 /dev/zero >&2' 2>&1 | sha256sum"),
    Row("a line of 30 MB", "head -c 30000000 /dev/zero | tr '\\0' x | lbrun cat | wc -lc"),
    Row("20,000 lines", "lbrun cat -n", LINES),
    Row("alternating", "lbrun sh -c 'for i in $(seq 3000); do echo o$i; echo e$i >&2; done'"),
    Row("alternating, one file", "lbrun sh -c 'for i in $(seq 500); do echo o$i; echo e$i >&2; "
        "done' >f 2>&1; sort f | sha256sum; rm f"),
    Row("a slow reader",
        "lbrun head -c 3000000 /dev/zero | (sleep 0.3; wc -c); echo ${PIPESTATUS[@]}"),
    Row("a slow writer", "for i in 1 2 3 4; do echo $i; sleep 0.1; done | lbrun cat"),
    Row("a slow command", "head -c 3000000 /dev/zero | lbrun sh -c 'sleep 0.3; wc -c'"),
    Row("single bytes", "lbrun dd bs=1 count=2000 status=none", LINES),
    Row("to a file, 24 MiB", "lbrun head -c 25165824 /dev/zero >f; sha256sum <f; rm f"),
    Row("from a file, 24 MiB", "head -c 25165824 /dev/zero >f; lbrun sha256sum <f; rm f"),
    Row("output before the end", "lbrun sh -c 'seq 100000; kill -KILL $$' | wc -l"),
    Row("output before exit", "lbrun sh -c 'seq 100000; exit 5' | wc -l; echo ${PIPESTATUS[0]}"),
]  # fmt: skip


# Shared descriptors: unread input stays for others, and one file stays one file.
SHARED = [
    Row("left for the next, a file", "printf '%09d\\n' {1..9} >f; { lbrun true; cat; } <f"),
    Row("left for the next, a file, later", "seq 200000 >f; { lbrun sleep 0.1; wc -c; } <f; rm f"),
    Row("left for the next, a line taken", "seq 9000 >f; { lbrun bash -c 'read x'; wc -c; } <f"),
    Row("left for the next, a pipe, most of it",
        "head -c 2000000 /dev/zero | { lbrun sleep 0.2; [ $(wc -c) -gt 1500000 ] && echo left; }"),
    Row("one file for both", "lbrun sh -c 'for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done' "
        ">f 2>&1"),
    Row("one pipe for both", "lbrun sh -c 'for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done' "
        "2>&1 | cat"),
    Row("SIGPIPE ignored", "trap '' PIPE; lbrun yes 2>err | head -n 1; echo ${PIPESTATUS[@]}"),
]  # fmt: skip


@table([*CLOSED, *KINDS, *ENDS, *MUCH, *SHARED])
@pytest.mark.usefixtures("lab")
def test_flows_the_same(lab, row, tmp_path):
    assert_same(lab, row, tmp_path)
