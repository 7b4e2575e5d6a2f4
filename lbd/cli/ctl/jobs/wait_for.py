"""`lbctl wait`, for queued jobs and plain `lbrun` commands together."""

import argparse
import time
from collections import Counter

from lbd.cli.complaints import report_error
from lbd.cli.ctl.jobs import queued_jobs
from lbd.cli.ctl.jobs.arrays import Ends, outcome
from lbd.cli.ctl.verb import say
from lbd.client.progress import has_terminal
from lbd.console import plain_commands
from lbd.console.daemons import Daemons
from lbd.console.job_acts import check_ids
from lbd.console.output import print_json
from lbd.console.reply import Json, text
from lbd.errors import LbdError


def wait(daemons: Daemons, options: argparse.Namespace) -> int:
    try:
        return wait_for(daemons, options)
    except KeyboardInterrupt:
        say("stopped waiting; what has not ended goes on")
        raise


def wait_for(daemons: Daemons, options: argparse.Namespace) -> int:
    queued, named = plain_commands.split(options.ids)
    if queued:
        check_ids(queued)
    give_up_s = time.monotonic() + options.timeout
    ended, absent = list[Json](), list[str]()
    try:
        waiting = plain_commands.Waiting(daemons, named)
        if len(options.ids) > 1:
            for why in (absent := waiting.leave_out_absent(give_up_s)):
                say(why)
        ended, left = waiting.until(give_up_s)
        if left:
            raise queued_jobs.not_ended(left, named)
    except LbdError as problem:
        report_error("lbctl", problem)
        return queued_jobs.NO_ANSWER
    status = int(any(text(one, "state") != "done" for one in ended))
    plain = ends_of(ended)
    is_last = not queued and has_terminal()
    if not options.json and (plain.bad or is_last) and (line := outcome(plain)):
        say(line)
    if queued:
        listed: bool = options.json
        of_queue, found = queued_jobs.wait(daemons, queued, give_up_s, plain, listed=listed)
        if not found and of_queue == queued_jobs.NO_ANSWER:
            return of_queue
        status = max(status, of_queue)
        ended += found
    for one in ended:
        if text(one, "state") == "unknown":
            say(f"{text(one, 'id')}: its outcome is unknown; see lbctl job {text(one, 'id')}")
    if options.json:
        print_json(ended)
    return queued_jobs.NO_ANSWER if absent else status


def ends_of(ended: list[Json]) -> Ends:
    """Returns how plain commands ended, without those of which it is unknown."""
    known = [one for one in ended if text(one, "state") != "unknown"]
    bad = [text(one, "id") for one in known if text(one, "state") != "done"]
    states = Counter(text(one, "state") for one in known)
    return Ends([text(one, "id") for one in known], states, bad)
