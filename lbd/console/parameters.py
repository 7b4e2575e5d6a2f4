"""The parameters that can be changed at run time, formatted for people."""

import math
from dataclasses import fields

from lbd.config.schema import LimConfig, LoadConfig, LogConfig
from lbd.console.daemons import Daemons
from lbd.console.reply import Json, number, text
from lbd.local.json_socket import Refusal

SECTIONS = {"lim": LimConfig, "load": LoadConfig, "log": LogConfig}


def fetch_all(daemons: Daemons) -> list[Json]:
    """Returns every parameter that can be changed; the LIM refuses the names of the others."""
    found: list[Json] = []
    for section in SECTIONS.values():
        for item in fields(section):
            try:
                found.append(daemons.lim({"op": "param", "name": item.name}))
            except Refusal:
                continue
    return found


def as_json(replies: list[Json]) -> Json:
    saved = {text(one, "name"): one["saved"] for one in replies if "saved" in one}
    return {"params": {text(one, "name"): one.get("value") for one in replies}, "saved": saved}


def shown(reply: Json, key: str) -> str:
    """Formats a parameter's value, without 0.30000000000000004, or 1.0 for true."""
    value = number(reply, key)
    if math.isnan(value):
        return text(reply, key)
    section, _, name = text(reply, "name").partition(".")
    kind = SECTIONS.get(section)
    if kind and any(item.name == name and item.type is bool for item in fields(kind)):
        return "true" if value else "false"
    return f"{value:.12g}"
