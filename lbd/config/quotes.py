"""Recognises a text that was written without quotes, the commonest mistake in lbd.toml."""

import tomllib

from lbd.text.one_line import one_line


def quoted_hint(line: str) -> str:
    """Returns what to add where a text was written without quotes."""
    key, _, value = line.partition("=")
    value = value.partition("#")[0].strip()
    if not value or value[0] in "\"'[{":
        return ""
    meant = f'{key.strip()} = "{value}"'
    try:
        tomllib.loads(meant)
    except tomllib.TOMLDecodeError:
        return ""
    return f"; text needs quotes: {one_line(meant, 80)}"
