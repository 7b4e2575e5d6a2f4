"""Reads the command line of `lbrun`, without argparse, which would double its start-up time."""

import posix

from lbd.client.complaints import REMOVED, Trouble

DEPTH_MAX = 32

WITH_VALUE = {
    "-H": "host", "--host": "host", "-x": "exclude", "--exclude": "exclude",
    "-C": "chdir", "--chdir": "chdir", "-e": "env", "--env": "env", "--name": "name",
    "--timeout": "timeout", "--mem": "mem", "--status-file": "status_file", "--config": "config",
    "--send": "send", "--fetch": "fetch", "--array": "array", "-o": "output",
    "--output": "output", "--error": "error", "--idempotency-key": "key", "-n": "slots",
    "--slots": "slots", "--priority": "priority",
    "--checkpoint": "checkpoint", "--speedup": "speedup", "--work": "work", "--target": "target",
    "--deadline": "deadline", "--begin": "begin", "--after": "after", "--after-ok": "after",
    "--after-failed": "after", "--after-any": "after", "--after-task": "after",
    "--notify": "notify", "--need": "need", "--feature": "feature",
    "--not-feature": "not_feature",
}  # fmt: skip
PLAIN = {
    "--local": "local", "--remote": "remote", "--explain": "explain", "--json": "json",
    "--no-fallback": "no_fallback", "--no-stdin": "no_stdin", "-v": "verbose",
    "--verbose": "verbose", "--help": "help", "-h": "help", "--version": "version",
    "--clean-env": "clean_env",
    "-t": "tty", "--tty": "tty", "-T": "no_tty", "--no-tty": "no_tty", "--no-restart": "no_restart",
    "--append": "append", "--gang": "gang", "-q": "queue", "--queue": "queue", "-d": "detach",
    "--detach": "detach",
}  # fmt: skip
QUEUES_OWN = {
    "array", "output", "error", "key", "priority", "checkpoint", "speedup", "work", "target",
    "deadline", "begin", "after", "notify", "gang", "append",
}  # fmt: skip
OF_SLURM = {
    "--dependency": "--after", "--gres": "--need", "--gpus": "--need gpu=N", "--licenses": "--need",
    "--constraint": "--feature", "--time": "--timeout", "--nodelist": "--host",
    "--cpus-per-task": "--slots", "-c": "--slots", "--job-name": "--name", "-J": "--name",
    "-a": "--array", "--ntasks": "--array", "--nodes": "--array 1-N --gang",
    "-N": "--array 1-N --gang", "--partition": "--feature", "-p": "--feature", "-w": "--host",
    "-D": "--chdir", "--open-mode": "--append", "--wait": "--queue", "--no-requeue": "--no-restart",
}  # fmt: skip
NEEDS = {"need": "", "feature": "+", "not_feature": "-"}  # prefixes the LBM expects
OPPOSITE = {"tty": "no_tty", "no_tty": "tty"}  # the last one counts


class Options:
    """The parsed command line."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.excluded: list[str] = []
        self.variables: list[str] = []
        self.send: list[str] = []
        self.fetch: list[str] = []
        self.asked: dict[str, list[str]] = {}  # values of --need, --feature and --not-feature
        self.needs = ""  # the same in the form the LBM reads
        self.plain: set[str] = set()
        self.typed: dict[str, str] = {}  # the last name by which each option was given
        self.command: list[str] = []
        self.timeout_s = 0.0
        self.memory_bytes = 0

    @property
    def queued(self) -> bool:
        return bool(self.plain & {"queue", "detach"})


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
    try:
        check(options)
    except Trouble as problem:
        raise Trouble(as_typed(str(problem), options.typed)) from None
    return options


def as_typed(message: str, typed: dict[str, str]) -> str:
    """Returns the message with the short names of options that were given by those."""
    import re  # imported late: only a mistake needs it

    for key, name in typed.items():
        if not name.startswith("--"):
            message = re.sub(rf"{spelt(key)}(?![\w-])", name, message)
    return message


def take_option(options: Options, name: str, value: str | None, rest: list[str]) -> None:
    if name in PLAIN and value is None:
        options.plain.add(PLAIN[name])
        options.typed[PLAIN[name]] = name
        options.plain.discard(OPPOSITE.get(PLAIN[name], ""))
    elif name in WITH_VALUE:
        if value is None:
            if not rest:
                raise Trouble(f"{name} needs a value")
            value = rest.pop(0)
        key = WITH_VALUE[name]
        options.typed[key] = name
        if key == "exclude":
            options.excluded += read_names(name, value)
        elif key == "env":
            options.variables.append(value)
        elif key in NEEDS:
            options.asked.setdefault(key, []).append(value)
        elif key in ("send", "fetch"):
            (options.send if key == "send" else options.fetch).append(value)
        elif key == "after":
            from lbd.client.wait_rules import add_after

            options.values[key] = add_after(options.values.get(key, ""), name, value)
        else:
            options.values[key] = value
    elif name in PLAIN:
        raise Trouble(f"{name} takes no value")
    else:
        hint = nearest(name)
        if name == "-c" and not (rest and rest[0].lstrip("-").isdecimal()):
            hint = '; for a line of shell use "lbsh -c LINE", as in make SHELL=lbsh'
        raise Trouble(f"unknown option {name}{hint}; see lbrun --help")


def read_names(name: str, value: str) -> list[str]:
    """Reads host names separated by commas. Raises Trouble."""
    names = [part.strip() for part in value.split(",")]
    if "" in names:
        raise Trouble(f"{name} {value}: a host's name is missing; use {name} h2 or {name} h2,h3")
    return names


def nearest(name: str) -> str:
    from lbd.text.spelling import nearest as most_similar

    if name in OF_SLURM:
        return f'; use "{OF_SLURM[name]}"'
    near = most_similar(name, [*PLAIN, *WITH_VALUE])
    return f'; did you mean "{near}"?' if near else ""


def spelt(key: str) -> str:
    """Returns the long name of an option."""
    names = WITH_VALUE | PLAIN
    return next(name for name in names if names[name] == key and name.startswith("--"))


def check(options: Options) -> None:
    """Checks combinations of options and their values. Raises Trouble."""
    plain, values = options.plain, options.values
    if plain & {"help", "version"}:
        return
    if "timeout" in values or "mem" in values:
        from lbd.text.units import UNIT_FROM_BYTES, duration_s, size_bytes

        name = "--timeout"
        try:
            options.timeout_s = duration_s(values.get("timeout", "0"))
            name = "--mem"
            options.memory_bytes = size_bytes(values.get("mem", "0"))
            size = values.get("mem", "")
            if size and not options.memory_bytes:
                raise ValueError("must be above 0")
            if options.memory_bytes < UNIT_FROM_BYTES and size[-1:].isdecimal():
                raise ValueError(f"{size} bytes? add a unit, such as {size}G")
        except ValueError as problem:
            raise Trouble(f"{name}: {problem}") from None
    if options.asked:
        options.needs = read_asked(options.asked)
    if "," in (host := values.get("host", "")):
        raise Trouble(f"-H {host}: it takes one host; leave the others out with -x instead")
    if values.get("host") in options.excluded and "host" in values:
        raise Trouble(f"host {values['host']} is both requested and excluded")
    if "status_file" in values:
        values["status_file"] = writable_path(values["status_file"])
    if "slots" in values:
        from lbd.client.queue_rules import check_slots

        check_slots(values)
        if "explain" in plain:
            raise Trouble("--explain does not support -n")
    if options.queued:
        from lbd.client.queue_rules import check_queued

        check_queued(plain, values, options.send, options.fetch)
    elif own := [key for key in (*values, *plain) if key in QUEUES_OWN]:
        name = spelt(own[0])
        how = "" if own[0] in ("output", "error") else ", or -q to wait for the end"
        raise Trouble(f"{name} applies to queued jobs: add -d{how}")
    if "local" in plain and ("remote" in plain or "host" in values):
        raise Trouble("--local contradicts --remote and --host")
    if "json" in plain and "explain" not in plain:
        raise Trouble("--json needs --explain")
    if int(depth(posix.environ)) >= DEPTH_MAX:
        raise Trouble(
            f"{DEPTH_MAX} nested lbruns; does a script named like its command call lbrun?"
        )
    if not options.command:
        raise Trouble("no command given; see lbrun --help")


def read_asked(asked: dict[str, list[str]]) -> str:
    """Returns the command's needs in the form of text/needs_words.py. Raises Trouble."""
    from lbd.text.needs import read_features, read_needs

    words: list[str] = []
    for key, texts in asked.items():
        try:
            if key == "need":
                words += [f"{name}={amount}" for name, amount in read_needs(texts)]
            else:
                words += [NEEDS[key] + name for name in read_features(texts)]
        except ValueError as problem:
            raise Trouble(f"--{key.replace('_', '-')} {problem}") from None
    for word in words:
        if word[0] == "+" and "-" + word[1:] in words:
            raise Trouble(f"--feature {word[1:]} contradicts --not-feature {word[1:]}")
    return " ".join(words)


def writable_path(path: str) -> str:
    """Returns an absolute path, since -C changes the directory. Raises Trouble if no file can be
    created there."""
    directory, _, name = path.rpartition("/")
    if not path.startswith("/"):
        try:
            directory = posix.getcwd() + "/" + directory
        except OSError:
            raise Trouble(f"--status-file {path}: {REMOVED}") from None
    if not name or not posix.access(directory or "/", posix.W_OK | posix.X_OK):
        raise Trouble(f"--status-file {path}: cannot create a file there")
    return f"{directory}/{name}"


def depth(environment: dict[bytes, bytes]) -> bytes:
    text = environment.get(b"LBD_DEPTH", b"0")
    return text if text.isdigit() and len(text) < 4 else b"0"
