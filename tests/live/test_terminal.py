"""Terminals: what a command finds, what real programs do with it, and the state ours is left in."""

import hashlib
import os
import re
import shutil
import signal
import time
from functools import partial

import psutil
import pytest
from contract import PYTHON
from terminal import END, INTERRUPT, PROMPT, Terminal

from tests.live.cluster import Lab

LAB = partial(Lab.up, 2)
AWAY = "lbrun -H h2"


@pytest.fixture
def shell(lab):
    with Terminal.shell(lab) as shell:
        yield shell


def needs(program):
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"no {program} here")


# What the command finds


ASK = """
for n in 0 1 2; do [ -t $n ] && echo "$n is one"; done
stat -c '%U %a' "$(tty)" 2>/dev/null
stty size 2>/dev/null
echo "$TERM $LC_ALL"
"""


def test_the_command_has_a_terminal_like_ours(shell, tmp_path):
    script = tmp_path / "ask"
    script.write_text(ASK)
    found = shell.run(f"{AWAY} sh {script}").split("\n")
    assert found == ["0 is one", "1 is one", "2 is one", "root 620", "24 160", "linux C.UTF-8"]
    modes = "stty -a | tr ' ' '\\n' | sort | md5sum"
    assert shell.run(f'{AWAY} sh -c "{modes}"') == shell.run(modes)
    shell.run("stty intr ^X")
    assert shell.run(f"{AWAY} sh -c \"stty -a | grep -o 'intr = ..'\"") == "intr = ^X"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "0 1 2"),
        ("-T", ""),
        ("-t", "0 1 2"),
        ("-t -T", ""),
        ("--no-tty --tty", "0 1 2"),
        ("--no-stdin", ""),
        ("-t --no-stdin", "1 2"),
    ],
)
def test_which_descriptors_are_terminals(shell, words, expected):
    ask = "import os; print(*[n for n in (0, 1, 2) if os.isatty(n)])"
    assert shell.run(f"{AWAY} {words} {' '.join(PYTHON)} -c '{ask}'") == expected


def test_redirected_input_is_not_a_terminal(shell, tmp_path):
    """Unless asked for; a redirected descriptor is a stream of its own in any case."""
    ask = f"{' '.join(PYTHON)} -c 'import os; print(*map(os.isatty, (0, 1, 2)))'"
    assert shell.run(f"{AWAY} {ask} | cat") == "False False False"
    assert shell.run(f"echo | {AWAY} {ask}") == "False False False"
    assert shell.run(f"{AWAY} {ask} 2>/dev/null") == "True True False"
    assert shell.run(f"{AWAY} -t {ask} </dev/null") == "True True True"
    assert shell.run(f"lbrun --local -t {ask} </dev/null") == "True True True"
    assert shell.run(f"{AWAY} -t cat </dev/null; echo $?") == "0"  # and finds its end there
    assert shell.run(f"{AWAY} sh -c 'echo out; echo err >&2' 2>{tmp_path}/err") == "out"
    assert (tmp_path / "err").read_text() == "err\n"
    shell.run(f"{AWAY} -t {ask} >{tmp_path}/out")
    assert (tmp_path / "out").read_bytes() == b"True True True\r\n"


def test_a_pipe_into_a_terminal(shell, tmp_path):
    """-t with redirected input: it is typed, and its end is ^D."""
    shell.run(f"cd {tmp_path}")

    def typed(printing, mark):
        """The input of `cat`, without echo from the start."""
        once_quiet = f"(until [ -e {mark} ]; do sleep 0.05; done; {printing})"
        command = f"stty -echo; touch {mark}; cat; echo end"
        return shell.run(f"{once_quiet} | {AWAY} -t sh -c '{command}'")

    assert typed("seq 3", "quiet1") == "1\n2\n3\nend"
    assert typed("printf ab", "quiet2") == "abend"


def test_size_and_its_changes(shell):
    shell.resize(30, 100)
    shell.line(f"{AWAY} sh -c 'trap \"stty size\" WINCH; stty size; while :; do sleep 0.1; done'")
    shell.wait_for("30 100")
    for rows, columns in ((40, 90), (20, 120)):
        shell.resize(rows, columns)
        shell.wait_for(f"{rows} {columns}")
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)


def test_window_size_changed_while_stopped(shell):
    shell.line(f"{AWAY} sh -c 'kill -STOP $$; stty size'")
    shell.wait_for("Stopped")
    shell.wait_for(shell.at_prompt)
    shell.resize(33, 99)
    shell.screen.reset()
    shell.line("fg")
    shell.wait_for("33 99")


# What is typed


def test_utf8_and_its_erasing(shell):
    """One key erases one character, not one byte: IUTF8 is passed along."""
    shell.line(f"{AWAY} cat")
    shell.wait_for(shell.is_raw, "raw mode")
    shell.send("häßlich✓\x7f\x7f\r")
    shell.wait_for("häßlic\n")
    assert [line for line in shell.lines() if line.startswith("häß")] == ["häßlic", "häßlic"]
    shell.send(END)
    shell.wait_for(shell.at_prompt)


LINES = 20_000


def test_a_large_paste_of_lines(shell):
    """A megabyte, into a program that reads lines."""
    text = "".join(f"{number:06d} {'x' * 44}\n" for number in range(LINES))
    digest = hashlib.md5(text.encode()).hexdigest()
    shell.line(f"{AWAY} sh -c 'stty -echo; echo ready; md5sum'")
    shell.wait_for("ready")
    shell.send(text)
    shell.send(END)
    shell.wait_for(digest, timeout_s=60)
    shell.wait_for(shell.at_prompt)


def test_a_large_paste_of_keys(shell, tmp_path):
    script = tmp_path / "take.py"
    script.write_text(
        "import hashlib, os, sys, tty\n"
        "tty.setraw(0); os.write(1, b'ready'); left = int(sys.argv[1]); seen = hashlib.md5()\n"
        "while left:\n    data = os.read(0, left); left -= len(data); seen.update(data)\n"
        "os.write(1, seen.hexdigest().encode())\n"
    )
    keys = bytes(range(256)) * 4096
    shell.line(f"{AWAY} {' '.join(PYTHON)} {script} {len(keys)}")
    shell.wait_for("ready")
    shell.send(keys)
    shell.wait_for(hashlib.md5(keys).hexdigest(), timeout_s=60)
    shell.wait_for(lambda: shell.lines()[-1].endswith("at-home>"), "the prompt")


def test_end_of_file_by_hand(shell):
    shell.line(f"{AWAY} sh -c 'cat; echo then; cat'")
    shell.wait_for(shell.is_raw, "raw mode")
    shell.send(END)
    shell.wait_for("then")
    shell.line("more")
    shell.send(END)
    shell.wait_for(shell.at_prompt)
    assert "more\nmore" in shell.text()


def test_a_flood_of_output_can_be_interrupted(shell):
    shell.line(f"{AWAY} yes")
    shell.wait_for("y\ny\ny")
    shell.send(INTERRUPT)
    shell.wait_for(shell.at_prompt)
    assert shell.run("echo $?") == "130"


def test_output_is_complete(shell):
    """Everything that the command prints just before its end is seen."""
    for size in (1, 4095, 70_000):
        before = len(shell.raw)
        script = f'head -c {size} /dev/zero | tr "\\0" +'
        shell.line(f"{AWAY} sh -c '{script}; echo \"|\"'")
        shell.wait_for(lambda before=before: b"+|" in shell.raw[before:], "the end")
        shell.wait_for(lambda: shell.lines()[-1] == PROMPT, "the prompt")
        assert b"+" * size + b"|" in shell.raw[before:]


def test_output_of_other_programs_meanwhile_looks_as_usual(shell):
    """A line feed still ends a line, although every key goes elsewhere."""
    before = len(shell.raw)
    script = f"{{ sleep 2; echo m-one; echo m-two; }} & {AWAY} sh -c 'echo o-one; sleep 4'"
    shell.run(f'bash -c "{script}; wait"')
    assert b"\r\no-one\r\nm-one\r\nm-two\r\n" in shell.raw[before:]


# Real programs


@needs("vim")
def test_vim(shell, tmp_path):
    shell.line(f"{AWAY} vim -u NONE -N {tmp_path}/text")
    shell.wait_for("~")
    shell.send("iover there ü\x1b")
    shell.send(":set invnumber\r")
    shell.wait_for("  1 over there ü")
    shell.resize(30, 90)
    shell.wait_for(lambda: len([line for line in shell.lines() if line == "~"]) > 24, "more lines")
    shell.send("\x1a")
    shell.wait_for("Stopped")
    shell.wait_for(shell.at_prompt)
    shell.line("fg")
    shell.wait_for("  1 over there ü")
    shell.send(":wq\r")
    shell.wait_for(shell.at_prompt)
    assert (tmp_path / "text").read_text() == "over there ü\n"


@needs("less")
def test_less(shell, tmp_path):
    (tmp_path / "long").write_text("".join(f"line {n}\n" for n in range(1000)))
    shell.line(f"{AWAY} less {tmp_path}/long")
    shell.wait_for("line 22")
    shell.send("G")
    shell.wait_for("line 999")
    shell.send(INTERRUPT + INTERRUPT + INTERRUPT)
    shell.settle()
    shell.send("?line 500\r")
    shell.wait_for("line 500")
    shell.send("q")
    shell.wait_for(shell.at_prompt)


def test_pythons_prompt(shell):
    shell.line(f"{AWAY} env PYTHON_BASIC_REPL=1 python3 -q -i -c 'pass'")
    shell.wait_for(">>>")
    shell.line("6*7*1000")
    shell.wait_for("42000")
    for number in (1, 2):
        shell.send(INTERRUPT)
        seen = lambda number=number: shell.text().count("KeyboardInterrupt\n>>>") == number  # noqa: E731
        shell.wait_for(seen, "KeyboardInterrupt and a prompt")
    shell.line("import os; os.get_terminal_size()")
    shell.wait_for("columns=160")
    shell.send(END)
    shell.wait_for(shell.at_prompt)


@needs("tmux")
def test_tmux(shell, tmp_path):
    shell.line(f"{AWAY} tmux -S {tmp_path}/s -f /dev/null new 'echo in-$((6*7)); exec cat'")
    shell.wait_for("in-42")
    shell.line("hello")
    shell.wait_for("hello\nhello")
    shell.send("\x02d")
    shell.wait_for(shell.at_prompt)


# The state of our terminal afterwards


@pytest.mark.parametrize(
    ("how", "status"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("stty raw -echo; exit 3", 3)],
)
def test_the_terminal_is_as_it_was(shell, how, status):
    before = shell.run("stty -g")
    shell.run(f"{AWAY} sh -c '{how}'")
    assert shell.run(f"echo {status}:$?; stty -g") == f"{status}:{status}\n{before}"


def test_lbruns_own_failures_are_shown_in_order(shell):
    shell.run(f"{AWAY} no-such-command")
    assert shell.run("echo $?") == "127"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV])
def test_a_client_that_is_killed(lab, number):
    """A shell would restore its terminal itself, so there is none here to do it."""
    environment = lab.environment("h1")
    script = 'lbrun -H h2 sh -c "echo begun; exec sleep 609.5"; echo status=$?; sleep 30'
    with Terminal(["sh", "-c", script], environment) as terminal:
        before = terminal.modes()
        terminal.wait_for("begun")
        terminal.wait_for(terminal.is_raw, "raw mode")
        (client,) = [
            child
            for child in psutil.Process(terminal.process.pid).children(recursive=True)
            if "lbrun" in " ".join(child.cmdline())
        ]
        client.send_signal(number)
        terminal.wait_for("status=")
        terminal.wait_for(lambda: terminal.modes() == before, "the modes it had")


@pytest.mark.parametrize("victim", [("h1", "lbm"), ("h2", "lbm"), ("h2", "keeper")], ids="-".join)
def test_a_daemon_that_is_killed(make_lab, victim):
    lab = make_lab(2)
    with Terminal.shell(lab) as shell:
        before = shell.run("stty -g")
        shell.line(f"{AWAY} sleep 610.5")
        shell.wait_for(shell.is_raw, "raw mode")
        time.sleep(0.2)
        if victim[1] == "keeper":
            os.kill(lab.pids()["h2"]["keeper"], signal.SIGKILL)
        else:
            lab.kill(*victim)
        shell.wait_for(shell.at_prompt, timeout_s=30)
        assert shell.run("echo $?; stty -g") == f"125\n{before}"


def test_the_terminal_vanishes(lab):
    """Its command gets a hang-up, as it would locally."""
    with Terminal.shell(lab) as shell:
        shell.line(f"{AWAY} sh -c 'echo pid=$$; exec sleep 611.5'")
        pid = int(shell.wait_for(lambda: re.search(r"^pid=(\d+)$", shell.text(), re.M)).group(1))
    lab.wait_until(lambda: not psutil.pid_exists(pid), "the end of the command")


def test_the_network_is_cut(make_lab):
    """Nothing more comes from the other side: the terminal is ours again all the same."""
    lab = make_lab(2, "namespaces")
    with Terminal.shell(lab) as shell:
        before = shell.run("stty -g")
        shell.line(f"{AWAY} sleep 612.5")
        shell.wait_for(shell.is_raw, "raw mode")
        lab.cut("h1", "h2")
        shell.wait_for(shell.at_prompt, timeout_s=40)
        assert shell.run("echo $?; stty -g") == f"125\n{before}"


def test_an_lbm_that_hangs(make_lab):
    """^C is the way out, once it is clear that nothing takes what is typed."""
    lab = make_lab(2)
    pid = lab.pids()["h1"]["lbm"]
    with Terminal.shell(lab) as shell:
        before = shell.run("stty -g")
        shell.line(f"{AWAY} sleep 613.5")
        shell.wait_for(shell.is_raw, "raw mode")
        os.kill(pid, signal.SIGSTOP)
        try:
            shell.send("x")
            deadline_s = time.monotonic() + 20
            while not shell.at_prompt() and time.monotonic() < deadline_s:
                shell.send(INTERRUPT)
                shell.look(0.5)
            assert shell.run("stty -g") == before
        finally:
            os.kill(pid, signal.SIGCONT)


def test_as_another_user(lab):
    """The terminal there is the user's own."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv(1)")
    user = "setpriv --reuid=65534 --regid=65534 --clear-groups"
    user += " --inh-caps +dac_override --ambient-caps +dac_override"  # our clients are in /tmp
    with Terminal.shell(lab) as shell:
        shell.run("cd /")
        for command in ("id -un", "sh -c 'stat -c %U $(tty)'", "sh -c 'echo ok >/dev/tty'"):
            expected = "ok" if "ok" in command else "nobody"
            assert shell.run(f"{user} {AWAY} {command}") == expected
        shell.line(f"{user} {AWAY} cat")
        shell.wait_for(shell.is_raw, "raw mode")
        shell.send("\x1a")
        shell.wait_for("Stopped")
        shell.wait_for(shell.at_prompt)
        shell.line("fg")
        shell.wait_for(shell.is_raw, "raw mode")
        shell.screen.reset()
        shell.send(END)
        shell.wait_for(shell.at_prompt)


def test_a_command_that_calls_lbrun(lab):
    """It is the job's own command there, so its lbrun runs it here, with a terminal or without."""
    with Terminal.shell(lab) as shell:
        assert shell.run(f"{AWAY} lbrun printenv LBD_HOST") == "h2"
