"""Run a command here as a child, as if it had been run directly. Started by DIR/hK/enter.

    python -I -S enter.py DIRECTORY COMMAND…            attached: signals in, exit status out
    python -I -S enter.py --spawn LOG DIRECTORY COMMAND…  in the background; prints its pid
    python -I -S enter.py --odd PID    prints the variables of PID that a shell drops, as words

Only the children of a process that joins a PID namespace are in it, so a process outside must wait
for the command and pass signals on. Rules:

- With a terminal as stdin and stdout, the command gets a process group of its own, like under a
  shell, and the terminal while our own group has it; when it stops, so do we.
- With no terminal at all it also has its own group, so that a signal to our group arrives once.
- With some of each (`lbrun … | less`) it stays in our group, because the terminal belongs to that
  whole group. The terminal's signals reach it directly and are not sent again.
- When a signal ended the command it ends us too, so that a shell's loop ends with it. The command
  does not outlive us, even when we are killed.

Imports only what a bare interpreter loads quickly: this runs for each `lbrun` of a lab host.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
SI_KERNEL = 0x80  # sent by the kernel, which for these signals means by the terminal
FAILED, CANNOT_EXECUTE, NOT_FOUND = 125, 126, 127

PASSED_ON = frozenset(
    {
        signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
        signal.SIGUSR2, signal.SIGALRM, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT,
    }
)  # fmt: skip
OF_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)  # they stop a background group that uses it
HELD = PASSED_ON | {signal.SIGCHLD, signal.SIGTTOU}


def become(command: list[str], held_before: set[int]) -> int:
    """Executes the command. If that fails, returns the exit status that a shell would give."""
    signal.pthread_sigmask(signal.SIG_SETMASK, held_before)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; the command must not
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"lbd lab: {command[0]}: {error.strerror}\n")
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        return NOT_FOUND if missing else CANNOT_EXECUTE


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # In a PID namespace of its own it sees parent 0 while its parent outside is alive.
    if os.getppid() not in (0, parent):
        os._exit(128 + signal.SIGKILL)


def is_foreground() -> bool:
    """Whether we may read from the terminal; not if it controls another session, as under
    `su -c`."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def give_terminal(group: int) -> None:
    """Lets the group have the terminal if our group has it."""
    pass_terminal(os.getpgrp(), group)


def take_terminal(group: int) -> None:
    """Takes the terminal back if the group has it."""
    pass_terminal(group, os.getpgrp())


def pass_terminal(holder: int, group: int) -> None:
    try:
        if os.tcgetpgrp(0) == holder:
            os.tcsetpgrp(0, group)
    except OSError:  # it was hung up, or controls another session
        return


def attached(command: list[str]) -> int:
    """Runs the command and returns its exit status, negative for a signal."""
    terminals = [os.isatty(descriptor) for descriptor in range(3)]
    uses_terminal = terminals[0] and terminals[1]
    own_group = uses_terminal or not any(terminals)
    gets_terminal = uses_terminal and is_foreground()
    held_before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    me = os.getpid()
    child = os.fork()
    if child == 0:
        die_with_parent(me)
        if own_group:
            os.setpgid(0, 0)
        if gets_terminal:
            os.tcsetpgrp(0, os.getpgrp())
        os._exit(become(command, held_before))
    try:
        return wait_for(child, own_group, uses_terminal)
    finally:
        take_terminal(child)


def wait_for(child: int, own_group: bool, uses_terminal: bool) -> int:
    while True:
        info = signal.sigwaitinfo(HELD)
        number = info.si_signo
        if number in PASSED_ON:
            from_terminal = info.si_code == SI_KERNEL
            if from_terminal and own_group:
                os.killpg(child, number)
            elif not from_terminal:
                os.kill(child, number)
        if number != signal.SIGCHLD:
            continue
        pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            continue
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if uses_terminal and os.WSTOPSIG(status) in OF_TERMINAL and is_foreground():
            give_terminal(child)  # our shell has since brought us to the foreground
            os.killpg(child, signal.SIGCONT)
        else:
            stop_with(child, own_group, uses_terminal)


def stop_with(child: int, own_group: bool, uses_terminal: bool) -> None:
    """The command has stopped: stop too, for our shell to see, then continue both."""
    take_terminal(child)
    os.kill(os.getpid(), signal.SIGSTOP)
    if uses_terminal:
        give_terminal(child)
    if own_group:
        os.killpg(child, signal.SIGCONT)
    else:
        os.kill(child, signal.SIGCONT)


def ended_like(status: int) -> int:
    """Returns the exit status of the command, or is ended by the signal that ended it."""
    if status < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command has left its own
        if status not in (-signal.SIGKILL, -signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -status)
    return status if status >= 0 else 128 - status


def spawned(command: list[str], log: str) -> int:
    """Runs the command in a new session, its output in `log`, and prints its pid as seen from here.

    The command is a grandchild whose parent ends at once, so that the host's PID 1 inherits and
    reaps it rather than PID 1 outside. The kernel translates its pid for the receiver
    (SCM_CREDENTIALS), because the command itself knows only its pid inside.
    """
    import socket

    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            theirs.send(b"!")
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os._exit(become(command, signal.pthread_sigmask(signal.SIG_BLOCK, ())))
        os._exit(0)
    theirs.close()
    os.wait()
    _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(12))
    for _level, _kind, data in ancillary:
        os.write(1, b"%d\n" % int.from_bytes(data[:4], sys.byteorder))
    return 0 if ancillary else 1


def print_odd(pid: str) -> int:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = file.read().split(b"\0")
    for entry in entries:
        name, equals, _ = entry.partition(b"=")
        letters = name.replace(b"_", b"a")
        if name and equals and (not letters.isalnum() or name[:1].isdigit()):
            sys.stdout.buffer.write(b"'" + entry.replace(b"'", b"'\\''") + b"' ")
    return 0


def main(argv: list[str]) -> int:
    if argv[0] == "--odd":
        return print_odd(argv[1])
    log = None
    if argv[0] == "--spawn":
        log = argv[1]
        argv = argv[2:]
    directory, *command = argv
    if command[:1] in ([], [""]):
        sys.stderr.write("lbd lab: no command given\n")
        return FAILED
    try:
        os.chdir(directory)
    except OSError as error:
        sys.stderr.write(f"lbd lab: {directory}: {error.strerror}\n")
        return CANNOT_EXECUTE
    return ended_like(attached(command)) if log is None else spawned(command, log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
