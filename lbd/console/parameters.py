"""The value of a parameter, as people read it."""

import math
from dataclasses import fields

from lbd.config.schema import LimConfig, LoadConfig
from lbd.console.reply import Json, number, text


def shown(reply: Json, key: str) -> str:
    """A parameter's value, by its name: nobody has to read 0.30000000000000004, or 1.0 for true."""
    value = number(reply, key)
    if math.isnan(value):
        return text(reply, key)
    section, _, name = text(reply, "name").partition(".")
    kind = {"lim": LimConfig, "load": LoadConfig}.get(section)
    if kind and any(item.name == name and item.type is bool for item in fields(kind)):
        return "true" if value else "false"
    return f"{value:.12g}"
