"""`lbd sim replay FILE…`: repeats every decision of a recorded LIM."""

from lbd.cli.input_file import text_file
from lbd.cli.program import Parser
from lbd.console.output import print_json, put
from lbd.errors import ConfigError, LbdError
from lbd.sim.faults.replay import Divergence, Replay

DESCRIPTION = """what a LIM heard and decided, gone through again by this release's code

`lim.history_bytes` makes a LIM write it down, to history.jsonl in its host.state_dir. Exit status
0: every answer is as it was; 1: one is not (the first is shown)."""


def main(argv: list[str]) -> int:
    parser = Parser("lbd sim replay", DESCRIPTION)
    parser.add_argument("files", metavar="FILE", nargs="+", help="a history.jsonl, or one gzipped")
    parser.add_argument("--json", action="store_true", help="an object instead of lines")
    options = parser.parse_args(argv)
    found = []
    for name in options.files:
        replay, fault = replayed(name)
        assert replay.state is not None
        found.append(
            {
                "file": name, "host": replay.state.me, "release": replay.release,
                "lines": replay.lines, "seen": dict(replay.seen), "divergence": fault or None,
            }
        )  # fmt: skip
        if not options.json:
            counts = ", ".join(f"{count} {what}" for what, count in sorted(replay.seen.items()))
            verdict = fault or f"{counts}: all as recorded"
            put(f"{name}: {replay.state.me}, release {replay.release}: {verdict}")
    if options.json:
        print_json({"histories": found})
    return 1 if any(one["divergence"] for one in found) else 0


def feed(replay: Replay, line: str, name: str) -> None:
    """Raises Divergence, or ConfigError for a line that does not belong to a history."""
    try:
        replay.feed(line)
    except LbdError as problem:
        raise ConfigError(f"{name}: {problem}") from problem


def replayed(name: str) -> tuple[Replay, str]:
    """Returns the replay, and where it diverges or "". Raises LbdError if it is no history."""
    replay = Replay()
    try:
        with text_file(name) as file:
            for line in file:
                if not line.endswith("\n"):
                    break  # the LIM was killed while writing
                feed(replay, line, name)
    except Divergence as problem:
        return replay, str(problem)
    if replay.state is None:
        raise ConfigError(f"{name}: it is empty")
    return replay, ""
