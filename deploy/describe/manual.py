"""Manual pages: man(7) text of a program, and of lbd.toml."""

from collections.abc import Iterator, Sequence

from deploy.describe.program import Operand, Option, Program
from deploy.describe.settings import Setting
from lbd import __version__

SECTIONS = {"lbd": 8}  # daemons; the others are user commands
FILES = (
    ("/etc/lbd/lbd.toml", "this host's configuration; see lbd.toml(5)"),
    ("~/.config/lbd/lbd.toml", "a user's own, which takes precedence over /etc"),
    ("/run/lbd", "the daemons' sockets; $XDG_RUNTIME_DIR/lbd for daemons not started by root"),
    ("/var/lib/lbd", "what survives restarts; ~/.local/state/lbd for daemons not started by root"),
    (
        "/var/lib/lbd-authority",
        "the cluster's authority, on the host where `lbctl init` ran; only for root",
    ),
    (
        "/tmp/lbd-fallback-UID",  # noqa: S108  # only named
        "locks that count the commands of that user's lbrun while no daemons answer; in"
        " $XDG_RUNTIME_DIR if that is set; it may go when none of these commands runs",
    ),
)
ENVIRONMENT = (
    ("LBD_CONFIG", "the configuration file to use"),
    ("NO_COLOR", "if set, no colour, even on a terminal"),
)


def section_of(name: str) -> int:
    return SECTIONS.get(name, 1)


def page(
    program: Program, others: Sequence[Program], day: str, exits: Sequence[tuple[str, str, str]]
) -> str:
    """The page of a program and of all its commands. `exits`: programs, exit status, meaning."""
    section = section_of(program.name)
    lines = [
        heading(program.name, section, day),
        ".SH NAME",
        f"{program.name} \\- {escaped(phrase(program.about))}",
        ".SH SYNOPSIS",
        *synopsis(program),
        ".SH DESCRIPTION",
        *paragraphs((sentence(program.about), *program.details)),
        ".SH OPTIONS",
        *options(program.options),
        *commands(program),
        *notes(program),
        *exit_statuses(program, exits),
        *examples(program),
        ".SH FILES",
        *terms(FILES),
        ".SH ENVIRONMENT",
        *terms(ENVIRONMENT),
        ".SH SEE ALSO",
        *see_also([(other.name, section_of(other.name)) for other in others], program.name),
    ]
    return "\n".join(lines) + "\n"


def settings_page(known: Sequence[Setting], others: Sequence[Program], day: str) -> str:
    """lbd.toml(5)."""
    lines = [
        heading("lbd.toml", 5, day),
        ".SH NAME",
        "lbd.toml \\- configuration of the load\\-balancing daemons",
        ".SH DESCRIPTION",
        *paragraphs((
            "TOML. The same file serves every host; each finds itself in cluster.hosts by "
            "host.name. An unknown key or a bad value stops a program with one line that names "
            "file, line and key, what is allowed, and the closest known spelling.",
        )),
        ".SH SETTINGS",
    ]  # fmt: skip
    for item in known:
        lines += [".TP", f"\\fB{escaped(item.key)}\\fR = {escaped(item.default)}"]
        lines.append(guarded(f"{sentence(item.meaning)} Allowed: {item.allowed}."))
    names = [(other.name, section_of(other.name)) for other in others]
    lines += [".SH FILES", *terms(FILES[:2]), ".SH SEE ALSO", *see_also(names, "lbd.toml")]
    return "\n".join(lines) + "\n"


def heading(name: str, section: int, day: str) -> str:
    return f'.TH {name.upper()} {section} "{day}" "lbd {__version__}" "lbd"'


def synopsis(program: Program) -> Iterator[str]:
    yield f".B {program.name}"
    if program.commands:
        yield "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR ..."
    elif len(program.operands) == 1 and " " in program.operands[0].value:
        operand = escaped(program.operands[0].value)
        yield operand if operand.startswith("[SHELL") else f"[\\fIOPTIONS\\fR] {operand}"
    else:
        yield usage_of(program)


def usage_of(program: Program) -> str:
    words = [shown_option(option) for option in program.options if own(option)]
    return " ".join([*words, *map(shown_operand, program.operands)])


def own(option: Option) -> bool:
    """Whether it is more than what all of them have."""
    return option.flags[-1] not in ("--help", "--version", "--config")


def shown_option(option: Option) -> str:
    value = f" \\fI{escaped(option.value)}\\fR" if option.value else ""
    return f"[\\fB{escaped(option.flags[-1])}\\fR{value}]"


def shown_operand(operand: Operand) -> str:
    if is_literal(operand):
        words = "|".join(f"\\fB{escaped(one)}\\fR" for one in operand.choices)
        return words if operand.needed else f"[{words}]"
    text = f"\\fI{escaped(operand.value.upper().rstrip('…'))}\\fR{' ...' if operand.many else ''}"
    return text if operand.needed else f"[{text}]"


def is_literal(operand: Operand) -> bool:
    """Whether it names the very words to be typed."""
    return bool(operand.choices) and operand.value == "|".join(operand.choices)


def options(known: Sequence[Option]) -> Iterator[str]:
    for option in known:
        flags = ", ".join(f"\\fB{escaped(flag)}\\fR" for flag in option.flags)
        value = f" \\fI{escaped(option.value)}\\fR" if option.value else ""
        yield ".TP"
        yield flags + value
        yield guarded(option.about or "see above")


def commands(program: Program) -> Iterator[str]:
    if not program.commands:
        return
    yield ".SH COMMANDS"
    leaves = [p for command in program.commands for p in command.all() if not p.commands]
    for command in leaves:
        yield f'.SS "{escaped(command.name)}"'
        yield guarded(sentence(command.about))
        for paragraph in command.details:
            yield from (".PP", guarded(sentence(paragraph)))
        yield ".PP"
        yield f"\\fB{escaped(command.name)}\\fR {usage_of(command)}"
        yield from options([option for option in command.options if own(option)])
        named = [o for o in command.operands if o.about and not is_literal(o)]
        yield from terms([(o.value.upper(), o.about) for o in named])
        words = [o for o in command.operands if o.about and is_literal(o)]
        yield from terms([(o.value, o.about) for o in words], "B")
        yield from examples(command, ".PP")


def notes(program: Program) -> Iterator[str]:
    for note in program.notes:
        title, _, text = note.partition(": ")
        yield f".SH {title.upper()}"
        yield guarded(sentence(text[:1].upper() + text[1:]))


def exit_statuses(program: Program, exits: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    if any(note.lower().startswith("exit status") for note in program.notes):
        return  # in its own words
    title = [".SH EXIT STATUS"]
    for names, status, meaning in exits:
        words = [name.split() for name in names.split(", ")]
        if [program.name] in words or words[0][0] == program.name:
            of = "" if [program.name] in words else f"{names}: "
            yield from (*title, ".TP", f"\\fB{escaped(status)}\\fR")
            yield guarded(of + sentence(meaning) if of else sentence(meaning))
            title = []


def examples(program: Program, before: str = ".SH EXAMPLES") -> Iterator[str]:
    if program.examples:
        yield from (before, ".nf", *map(guarded, program.examples), ".fi")


def terms(rows: Sequence[tuple[str, str]], font: str = "I") -> Iterator[str]:
    for name, text in rows:
        yield from (".TP", f"\\f{font}{escaped(name)}\\fR", guarded(text))


def see_also(pages: Sequence[tuple[str, int]], own: str) -> list[str]:
    names = [*pages, ("lbd.toml", 5)]
    others = sorted((number, name) for name, number in names if name != own)
    rows = [f".BR {name} ({number})" for number, name in others]
    return [row + " ," for row in rows[:-1]] + rows[-1:]


def paragraphs(texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number:
            yield ".PP"
        yield guarded(sentence(text))


def phrase(text: str) -> str:
    return text[:1].lower() + text[1:].rstrip(".")


def sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", ":", "?", "!")) else f"{text}."


def escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha")


def guarded(text: str) -> str:
    """A line of text: one that begins like a request is kept from being one."""
    line = escaped(text)
    return f"\\&{line}" if line.startswith((".", "'")) else line
