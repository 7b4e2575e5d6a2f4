"""The command line of `lbrun`, read without argparse, which would double its start-up."""

import posix

TYPE_CHECKING = False  # typing's own would cost a millisecond
if TYPE_CHECKING:
    from collections.abc import Callable

    from lbd.cli.lbrun_stage import Staging

    Runner = Callable[["Options", list[bytes], dict[bytes, bytes], bytes], int]

FAILED = 125
DEPTH_MAX = 32

WITH_VALUE = {
    "-H": "host", "--host": "host", "-x": "exclude", "--exclude": "exclude",
    "-C": "chdir", "--chdir": "chdir", "-e": "env", "--env": "env", "--name": "name",
    "--timeout": "timeout", "--mem": "mem", "--status-file": "status_file", "--config": "config",
    "--send": "send", "--fetch": "fetch", "--array": "array", "-o": "output",
    "--output": "output", "--error": "error", "--idempotency-key": "key", "-n": "slots",
    "--slots": "slots", "--priority": "priority",
    "--checkpoint": "checkpoint",
}  # fmt: skip
PLAIN = {
    "--local": "local", "--remote": "remote", "--explain": "explain", "--json": "json",
    "--no-fallback": "no_fallback", "--no-stdin": "no_stdin", "-v": "verbose",
    "--verbose": "verbose", "--help": "help", "-h": "help", "--version": "version",
    "--clean-env": "clean_env",
    "-t": "tty", "--tty": "tty", "-T": "no_tty", "--no-tty": "no_tty", "--no-restart": "no_restart",
    "-q": "queue", "--queue": "queue", "-d": "detach", "--detach": "detach",
}  # fmt: skip
QUEUES_OWN = {"array", "output", "error", "key", "priority", "checkpoint"}
OPPOSITE = {"tty": "no_tty", "no_tty": "tty"}  # the last one counts


class Trouble(Exception):
    """lbrun itself failed: one line, exit 125."""


class Options:
    """The command line, read."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.excluded: list[str] = []
        self.variables: list[str] = []
        self.send: list[str] = []
        self.fetch: list[str] = []
        self.staging: Staging | None = None  # both, once the directory is known
        self.plain: set[str] = set()
        self.run_queued: Runner | None = None  # with -q or -d
        self.command: list[str] = []
        self.timeout_s = 0.0
        self.memory_bytes = 0


def read_options(arguments: list[str]) -> Options:
    """Raises Trouble for anything that is not in the contract."""
    options = Options()
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        value: str | None = None
        if word.startswith("--"):
            name, equals, text = word.partition("=")
            value = text if equals else None
        else:
            name, text = word[:2], word[2:]
            if text and name in WITH_VALUE:
                value = text
            elif text:
                rest.insert(0, "-" + text)
        take_option(options, name, value, rest)
    options.command = rest
    check(options)
    return options


def take_option(options: Options, name: str, value: str | None, rest: list[str]) -> None:
    if name in PLAIN and value is None:
        options.plain.add(PLAIN[name])
        options.plain.discard(OPPOSITE.get(PLAIN[name], ""))
    elif name in WITH_VALUE:
        if value is None:
            if not rest:
                raise Trouble(f"{name} needs a value")
            value = rest.pop(0)
        key = WITH_VALUE[name]
        if key == "exclude":
            options.excluded.append(value)
        elif key == "env":
            options.variables.append(value)
        elif key in ("send", "fetch"):
            (options.send if key == "send" else options.fetch).append(value)
        else:
            options.values[key] = value
    elif name in PLAIN:
        raise Trouble(f"{name} takes no value")
    else:
        raise Trouble(f"unknown option {name}{nearest(name)}; see lbrun --help")


def nearest(name: str) -> str:
    from lbd.spelling import hint

    return f"; {hint(name, [*PLAIN, *WITH_VALUE])}"


def check(options: Options) -> None:
    """What goes together, and what the values mean. Raises Trouble."""
    plain, values = options.plain, options.values
    if plain & {"help", "version"}:
        return
    if "timeout" in values or "mem" in values:
        from lbd.units import duration_s, size_bytes

        name = "--timeout"
        try:
            options.timeout_s = duration_s(values.get("timeout", "0"))
            name = "--mem"
            options.memory_bytes = size_bytes(values.get("mem", "0"))
        except ValueError as problem:
            raise Trouble(f"{name}: {problem}") from None
    if "local" in plain and ("remote" in plain or "host" in values):
        raise Trouble("--local contradicts --remote and --host")
    if values.get("host") in options.excluded and "host" in values:
        raise Trouble(f"host {values['host']} is both asked for and excluded")
    if "status_file" in values:
        values["status_file"] = writable_path(values["status_file"])
    if "slots" in values:
        from lbd.cli.lbrun_queue import check_slots

        check_slots(values)
        if "explain" in plain:
            raise Trouble("--explain takes no account of -n: leave that out")
    if plain & {"queue", "detach"} or values.keys() & QUEUES_OWN:
        from lbd.cli.lbrun_queue import check_queued

        check_queued(options)
    if "json" in plain and "explain" not in plain:
        raise Trouble("--json goes with --explain")
    if int(depth(posix.environ)) >= DEPTH_MAX:
        raise Trouble(
            f"{DEPTH_MAX} lbruns inside each other; does a script of its command's name call lbrun?"
        )
    if not options.command:
        raise Trouble("no command given; see lbrun --help")


def writable_path(path: str) -> str:
    """Absolute, since -C may take us elsewhere. Raises Trouble if no file can be made there."""
    directory, _, name = path.rpartition("/")
    if not path.startswith("/"):
        directory = posix.getcwd() + "/" + directory
    if not name or not posix.access(directory or "/", posix.W_OK | posix.X_OK):
        raise Trouble(f"--status-file {path}: no file can be made there")
    return f"{directory}/{name}"


def depth(environment: dict[bytes, bytes]) -> bytes:
    text = environment.get(b"LBD_DEPTH", b"0")
    return text if text.isdigit() and len(text) < 4 else b"0"
