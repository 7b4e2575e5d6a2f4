"""What a configuration with a fault says: enough to find the daemons, which run all the same."""

import re

from lbd.config.load import Given, find_file, load, parse, read_text, settle
from lbd.config.schema import Config
from lbd.errors import ConfigError

FAULTY_LINES_MAX = 50  # that are left out, of a file that is not TOML
NUMBER = re.compile(r":([0-9]+): not TOML")


def load_despite_faults(path: str | None) -> tuple[Config, list[str]]:
    """The configuration without what is wrong with it, and a line on each fault. Raises ConfigError
    if the file that was named is not there."""
    source = find_file(path)
    try:
        return load(path), []
    except ConfigError as problem:
        whole = str(problem)
    try:
        text = read_text(source) if source else ""
    except ConfigError:
        return settled(Given(str(source), ""), []), [whole]
    faults: list[str] = []
    settings = settings_in(text, str(source), faults)
    if faults:  # others may follow from them, as where the heading of a section is wrong
        return settled(Given(str(source), ""), settings), faults
    given = Given(str(source), text)
    sound = []
    for section, table in settings:
        try:
            given.add_section(section, table)
            sound.append((section, table))
        except ConfigError as problem:
            faults.append(str(problem))
    try:
        config = settle(given.config(), given)
    except ConfigError as problem:  # two settings, each sound, contradict each other
        faults.append(str(problem))
        config = settled(Given(str(source), ""), sound)
    return config, faults or [whole]


def settings_in(text: str, source: str, faults: list[str]) -> list[tuple[str, object]]:
    """Of each setting that can be read its section, and a table of it alone; `faults` has the lines
    that are no TOML."""
    lines = text.splitlines()
    for _ in range(FAULTY_LINES_MAX):
        try:
            tables = parse("\n".join(lines), source)
            break
        except ConfigError as problem:
            faults.append(str(problem))
            found = NUMBER.search(str(problem))
            number = int(found[1]) if found else 0
            if not 0 < number <= len(lines) or not lines[number - 1].strip():
                return []
            lines[number - 1] = ""
    else:
        return []
    return [
        (section, one)
        for section, table in tables.items()
        for one in (
            [{key: value} for key, value in table.items()] or [table]
            if isinstance(table, dict)
            else [table]
        )
    ]


def settled(given: Given, settings: list[tuple[str, object]]) -> Config:
    """With each of the settings that is sound and does not contradict those before it."""
    for section, table in settings:
        more = Given(given.source, "")
        more.lay_over(given)
        try:
            more.add_section(section, table)
            settle(more.config(), more)
        except ConfigError:
            continue
        given = more
    return settle(given.config(), given)
