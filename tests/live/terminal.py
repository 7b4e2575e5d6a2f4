"""A person at a terminal: a real pty with a terminal emulator, and an interactive shell on it."""

import contextlib
import fcntl
import os
import select
import struct
import subprocess
import termios
import time

import psutil
import pyte

PROMPT = "at-home>"  # and a space, which is not visible at the end of a line
IUTF8 = 0o40000
POLL_S = 0.05
ENOUGH = 16
PATIENCE_S = 90.0
INTERRUPT, STOP, END = "\x03", "\x1a", "\x04"


class Terminal:
    """`screen.display` is what a person would see; `raw` is every byte that came."""

    def __init__(self, command, environment, rows=24, columns=160, **options):
        self.master, slave = os.openpty()
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.resize(rows, columns)
        modes = termios.tcgetattr(slave)
        modes[0] |= IUTF8  # as a terminal emulator sets it
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *command], stdin=slave, stdout=slave, stderr=slave,
            env={"TERM": "linux", **environment}, **options,
        )  # fmt: skip
        os.close(slave)

    @classmethod
    def shell(cls, lab, host="h1", **options):
        """bash as a user gets it who logs in on `host`."""
        environment = lab.environment(
            host, PS1=f"{PROMPT} ", TERM="linux", LC_ALL="C.UTF-8", HISTFILE=""
        )
        for name in ("PROMPT_COMMAND", "VIRTUAL_ENV", "BASH_ENV"):
            environment.pop(name, None)
        command = lab.command(host, "bash", "--norc", "--noprofile", "-i")
        made = cls(command, environment, **options)
        try:
            made.wait_for(PROMPT)
            made.run("bind 'set enable-bracketed-paste off'")
        except BaseException:
            made.close()
            raise
        return made

    def close(self):
        os.close(self.master)
        root = psutil.Process(self.process.pid) if self.process.poll() is None else None
        for process in [root, *root.children(recursive=True)] if root else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # What the person types

    def send(self, keys):
        data = memoryview(keys.encode() if isinstance(keys, str) else keys)
        while data:
            self.look(0)
            _, ready, _ = select.select([], [self.master], [], POLL_S)
            if ready:
                data = data[os.write(self.master, data[:1024]) :]

    def line(self, text):
        self.send(text + "\r")

    def run(self, text):
        """Types a line at the shell's prompt; returns its output once the prompt is back."""
        self.screen.reset()
        self.line(text)
        self.wait_for(lambda: self.at_prompt() and text[:20] in self.text(), f"the end of {text!r}")
        return "\n".join(self.lines()[1:-1])

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    # What the person sees

    def look(self, seconds=POLL_S):
        """Reads what is there, or part of it if it never ends; waits for it up to `seconds`."""
        for _ in range(ENOUGH):
            if not select.select([self.master], [], [], seconds)[0]:
                return
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            self.raw += data
            self._stream.feed(data)
            seconds = 0

    def settle(self):
        """Reads until nothing more is printed."""
        before = -1
        while before != len(self.raw):
            before = len(self.raw)
            self.look(0.5)

    def lines(self):
        return [line.rstrip() for line in "\n".join(self.screen.display).rstrip().split("\n")]

    def text(self):
        return "\n".join(self.lines())

    def at_prompt(self):
        return self.lines()[-1] == PROMPT

    def wait_for(self, what, name="", timeout_s=PATIENCE_S):
        """Waits until the text is seen or the condition holds."""
        holds = (lambda: what in self.text()) if isinstance(what, str) else what
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.look()
            if found := holds():
                return found
            if time.monotonic() > deadline_s:
                seen = f"{self.text()}\n{self.raw[:2000]!r}"
                raise AssertionError(f"no {name or what!r} on the screen:\n{seen}")

    def modes(self):
        return termios.tcgetattr(self.master)

    def is_cooked(self):
        needed = termios.ICANON | termios.ECHO | termios.ISIG
        return self.modes()[3] & needed == needed

    def is_raw(self):
        return not self.modes()[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
