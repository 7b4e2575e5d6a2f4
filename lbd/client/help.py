"""The options of `lbrun` that print information and run nothing: --help, --version, --explain."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from lbd import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbd.client.options import Options

HELP = """\
usage: lbrun [OPTIONS] [--] COMMAND [ARG…]

Run a command on the host where it will finish soonest, by measured load, as if it ran here.

  -H, --host NAME       run on this host, whatever the load
  -x, --exclude NAME    never run on this host; also h2,h3 (repeatable)
  --local, --remote     never leave this host; never run on this host
  --no-fallback         fail (125) instead of running here when the chosen host cannot run it
  -n, --slots N         slots needed on one host; 2-8: as many as are free, in $LBD_SLOTS
  --need NAME[=AMOUNT]  reserve a resource of the host (repeatable): gpu, gpu=2, scratch=50G; what
                        was assigned is in $LBD_RESOURCE_GPU; waits while all are in use
  --feature NAME        only hosts with this feature (repeatable): avx2, big (lbctl status --json)
  --not-feature NAME    only hosts without this feature (repeatable)
  --speedup A[,SIGMA]   with -q or -d and -n 2-8: average parallelism A and its variance SIGMA
  --work DUR            likewise: CPU time on one slot; with --target or --deadline, the time of
                        one task. Without these options, both are learnt
  -q, --queue           submit to the queue, wait for the end and show the output
  -d, --detach          submit to the queue, print the job's id and return; see lbctl jobs, logs,
                        wait
  --priority N          with -q or -d: higher starts first; above 0 for administrators only
  --array LIST          with -q or -d: one task per index, in $LBD_ARRAY_INDEX: 1-10, 0-100:10,
                        1,3,7-9; with %N at the end, at most N at once
  --target DUR          with --array: run just as many tasks at once as needed to finish in time
  --deadline TIME       likewise, to finish by 17:30, 2026-12-01T06:00 or +2h
  --after ID[,ID…]      with -q or -d: start once these jobs have succeeded, arrays completely
                        (ID may be `last`)
  --after-ok ID[,ID…]   another name of --after
  --after-failed ID[,ID…]
                        with -q or -d: start once these jobs have failed or were cancelled or lost
  --after-any ID[,ID…]  with -q or -d: start once these jobs have ended, whatever the outcome
  --after-task ID       with --array: start each task once the task with the same index in that
                        array has succeeded
  --notify COMMAND      with -q or -d: when the job ends, run `sh -c COMMAND` here once, with
                        $LBD_JOB_ID, $LBD_STATE and $LBD_EXIT_STATUS, for at most a minute
  --begin TIME          with -q or -d: do not start before 17:30, 2026-12-01T06:00 or +2h
  --gang                with --array: start all tasks together or none; their hosts are in
                        $LBD_GANG_HOSTS
  -o, --output FILE     with -d: write the output to FILE while the job runs (%j job id, %A array
                        id, %a array index, %h host); each attempt starts the file again
  --append              with -o or --error: write to the end of the file, each attempt too
  --error FILE          likewise for standard error; without it, standard error goes to -o's file
  --checkpoint DIR      with -q or -d: exit status 85 means "stopped here, continue later"; the
                        job finds DIR in $LBD_CHECKPOINT
  --idempotency-key KEY
                        with -q or -d: submitting the same key twice gives the same job
  --timeout DUR         wall-clock limit (exit 124): 90, 20s, 2m, 1h30m, 1:30:00,
                        1-06:00 (a day and 6 hours); 90:00 is 90 minutes
  --mem SIZE            memory limit: 512K, 2G; below 1024, a unit is required; with -q and -d the
                        host must also have that much memory unassigned
  --name TEXT           label shown by `lbctl jobs`
  --no-stdin            give the command an empty standard input and leave ours unread (for loops)
  --no-restart          never run it a second time: neither after its host was lost (only -q and
                        -d do that) nor elsewhere because the host's owner is back
  -C, --chdir DIR       run in this directory; with -H, a full path need not be shared with that
                        host, only exist there
  -e, --env NAME=VALUE  set a variable (repeatable); NAME alone: pass on yours even if withheld
  --clean-env           pass on only PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, LC_*, TZ
  --send PATH           send a file or directory along (repeatable); the command then runs in a
                        private directory on the other host, with -q and -d always
  --fetch PATH          bring a file or directory back, completely or not at all (repeatable);
                        with -d when the job has ended; %a, %j and %h as in --output
  -t, --tty             give the command a terminal even if there is none here
  -T, --no-tty          give the command no terminal even if there is one here
  --status-file FILE    at the end, write JSON: host, exit status, signal, attempt, cause
  --explain             print the ranked hosts, the decision and its reason; run nothing
  --json                with --explain: the same as JSON
  -v, --verbose         say on stderr where it ran and why
  --config FILE         lbd.toml to use
  -h, --help, --version

Exit status: the command's own; 128+N if signal N ended it; 124 time limit; 125 lbrun failed;
126 cannot execute; 127 not found.

examples:
  lbrun make -C build test
  lbrun -H h2 nproc
  make -j40 CC="lbrun gcc"
  ls *.wav | xargs -P16 -I{} lbrun flac {}
"""


def show(options: "Options") -> int:
    """Prints what --help, --version or --explain asks for. Returns the exit status."""
    if "help" in options.plain:
        from shutil import get_terminal_size

        from lbd.text.fitted_help import fitted

        sys.stdout.write(fitted(HELP, get_terminal_size().columns))
    elif "version" in options.plain:
        print(f"lbrun {__version__}")
    else:
        return explain(options)
    sys.stdout.flush()
    return 0


def say_as_wanted(problem: Exception, words: list[str]) -> None:
    """Prints an error as a line, or as JSON if lbrun's own options among `words` ask for that."""
    from lbd.client.complaints import say

    if {"--explain", "--json"} <= {*own_options(words)}:
        say_as_json(problem)
    else:
        say(str(problem))


def own_options(words: list[str]) -> "Iterator[str]":
    """Yields the options before the user's command, without their values."""
    from lbd.client.options import WITH_VALUE

    rest = iter(words)
    for word in rest:
        if word in ("-", "--") or not word.startswith("-"):
            return
        yield word
        if word in WITH_VALUE:
            next(rest, "")


def say_as_json(problem: Exception) -> None:
    """Prints an error as JSON on standard error, if the caller has one. Trouble is with the options
    or the configuration, as others come with a kind."""
    from lbd.client.complaints import ERROR, SAID_CHARS_MAX, Trouble, Voice
    from lbd.console.errors import error_object, kind_of
    from lbd.text.one_line import one_line

    kind = "usage" if isinstance(problem, Trouble) else kind_of(problem)
    line = error_object(kind, one_line(str(problem), SAID_CHARS_MAX))
    if Voice.is_there:
        with suppress(OSError):
            os.write(ERROR, f"{line}\n".encode())


ANSWER_S = 5.0


def explain(options: "Options") -> int:
    from lbd.client.complaints import FAILED, encode, say
    from lbd.client.daemons import ask
    from lbd.client.lbm_socket import find_runtime_dirs, is_kept_here
    from lbd.client.surroundings import working_directory
    from lbd.console import decision
    from lbd.console.decision import ask_eligible
    from lbd.errors import LbdError

    command, as_json = options.command, "json" in options.plain
    directories = find_runtime_dirs(options.values.get("config"))
    request = decision.place_request(
        options.values.get("host"),
        options.excluded,
        "remote" in options.plain,
        "local" in options.plain,
        options.needs,
    )
    asked = decision.question(
        request, options.command, working_directory(options), options.values.get("chdir", "")
    )
    asked["staged"] = bool(options.send or options.fetch)
    asked["kept"] = is_kept_here(options.values.get("config"), [encode(w) for w in command])
    try:
        reply = decision.ask_both(
            lambda asked: ask(directories, "lbm", asked, ANSWER_S),
            lambda request: ask(directories, "lim", request, ANSWER_S),
            request,
            asked,
        )
        eligible = None
        if as_json:  # eligibility under lbsh is only shown as JSON
            eligible = ask_eligible(
                lambda request: ask(directories, "lbm", request, ANSWER_S), command
            )
    except LbdError as problem:
        if as_json:
            say_as_json(problem)
        else:
            say(str(problem))
        return FAILED
    trouble = decision.trouble_here(reply, asked)
    decision.show(reply, request, command, as_json, eligible, trouble)
    sys.stdout.flush()
    return 0
