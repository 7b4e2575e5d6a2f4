"""`lbd sim backfill`: a trace's batch jobs on one host, under each rule of dispatch.backfill."""

from lbd.cli.input_file import UNREADABLE, unreadable
from lbd.cli.program import Parser
from lbd.cli.swf_file import lines_of
from lbd.config.dispatch import BACKFILLS
from lbd.console.output import print_table
from lbd.errors import ConfigError
from lbd.sim.queueing.backfill import batch_jobs, easy_waits_s, effect, waits_s

COLUMNS = ("RULE", ">MEAN WAIT", ">SLOWDOWN", ">LONGEST", ">LATER", ">BY")


def main(argv: list[str]) -> int:
    parser = Parser(
        "lbd sim backfill",
        "batch jobs of a trace on one host of many slots, under each rule of dispatch.backfill",
        ("lbd sim backfill --trace SDSC-SP2-1998-4.2-cln.swf.gz --slots 128 --limit 10000",),
    )
    parser.add_version()
    parser.add_argument("--trace", metavar="FILE", required=True, help="SWF, may be gzipped")
    parser.add_argument("--slots", metavar="N", type=int, required=True, help="of the host")
    parser.add_argument("--limit", metavar="N", type=int, default=10_000, help="of jobs: the first")
    parser.add_argument("--risk", metavar="P", type=float, default=0.1, help="of `learnt`")
    options = parser.parse_args(argv)
    try:
        jobs = batch_jobs(lines_of(options.trace), options.limit)
    except ValueError as problem:
        raise ConfigError(f"{options.trace}: {problem}") from None
    except UNREADABLE as problem:
        raise unreadable(options.trace, problem) from None
    jobs = [job for job in jobs if job.slots <= options.slots]
    if not jobs:
        raise ConfigError(f"{options.trace}: no job that ran and fits into {options.slots} slots")
    waits: dict[str, list[float]]
    waits = {rule: waits_s(jobs, options.slots, rule, options.risk) for rule in BACKFILLS}
    if all(job.limit_s for job in jobs):
        waits["(EASY)"] = easy_waits_s(jobs, options.slots)
    rows = []
    for rule, found in waits.items():
        one = effect(jobs, found, waits["off"])
        numbers = (
            f"{one.mean_wait_s:.0f} s",
            f"{one.mean_slowdown:.1f}",
            f"{one.longest_wait_s:.0f} s",
        )
        rows.append((rule, *numbers, f"{one.later:.1%}", f"{one.later_by_s:.0f} s"))
    print_table(COLUMNS, rows)
    return 0
