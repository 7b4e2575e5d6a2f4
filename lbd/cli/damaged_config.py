"""Reads a faulty configuration far enough to find the daemons, which still run."""

import re

from lbd.config.load import Given, find_file, load, parse, read_text, settle
from lbd.config.schema import Config
from lbd.errors import ConfigError

FAULTY_LINES_MAX = 50  # faulty lines to skip in a file that is not valid TOML
NUMBER = re.compile(r":([0-9]+): not TOML")


def load_despite_faults(path: str | None) -> tuple[Config, list[str]]:
    """Returns the configuration without its faulty settings, and a line on each fault. Raises
    ConfigError if the named file does not exist."""
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
    if faults:  # further faults may follow from these, such as a bad section heading
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
    except ConfigError as problem:  # two settings contradict each other
        faults.append(str(problem))
        config = settled(Given(str(source), ""), sound)
    return config, faults or [whole]


def settings_in(text: str, source: str, faults: list[str]) -> list[tuple[str, object]]:
    """Returns each readable setting as its section and a table of that setting alone. Adds lines
    that are not TOML to `faults`."""
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
    """Adds the settings one by one, skipping those that are faulty or contradict earlier ones."""
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
