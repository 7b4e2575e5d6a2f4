"""What changes the cluster: `drain`, `undrain`, `algorithm`, `param`."""

import argparse
import math
import time
from dataclasses import fields

from lbd.cli.daemons import Daemons
from lbd.cli.lbctl_status import host_named
from lbd.cli.output import print_json, print_table, put
from lbd.cli.program import complain
from lbd.cli.reply import Json, number, table, text
from lbd.config import LimConfig, LoadConfig
from lbd.config_file import toml_value
from lbd.rpc.local import Refusal

FORWARD_TIMEOUT_S = 10.0  # the answer comes after another host has confirmed
POLL_S = 0.5


def drain(daemons: Daemons, options: argparse.Namespace) -> int:
    """No new jobs there; with --wait, return when none of other hosts' jobs is left."""
    host: str = options.host
    request: Json = {"op": "drain", "host": host, "drained": True}
    away = daemons.lim(request, FORWARD_TIMEOUT_S).get("when_back")
    left = wait_until_empty(daemons, host, options.timeout) if options.wait else 0
    if options.json:
        print_json({"host": host, "drained": True, **({"jobs_left": left} if options.wait else {})})
    elif away and not options.wait:
        put(f"{host} does not answer: it is drained when it is back, and nothing is sent there")
    elif left:
        put(f"{host} is drained; {left} jobs of other hosts still run there")
    else:
        put(f"{host} is drained" + (" and empty" if options.wait else ": no new jobs there"))
    return 1 if left else 0


def wait_until_empty(daemons: Daemons, host: str, timeout_s: float) -> int:
    """Foreign jobs left on `host` when it was empty or the time was up."""
    drained_s = time.monotonic()
    while True:
        row = host_named(daemons.lim({"op": "status"}), host)
        foreign = number(table(row, "jobs"), "foreign")
        left = 0 if math.isnan(foreign) else int(foreign)
        waited_s = time.monotonic() - drained_s
        # A sample from before the drain proves nothing: a job may have begun since.
        fresh = number(row, "age_s") < waited_s or text(row, "state") == "down"
        if (left == 0 and fresh) or waited_s > timeout_s:
            return left
        time.sleep(POLL_S)


def undrain(daemons: Daemons, options: argparse.Namespace) -> int:
    host: str = options.host
    request: Json = {"op": "drain", "host": host, "drained": False}
    away = daemons.lim(request, FORWARD_TIMEOUT_S).get("when_back")
    if options.json:
        print_json({"host": host, "drained": False})
    else:
        put(f"{host} takes jobs again" + (" when it is back" if away else ""))
    return 0


def reload(daemons: Daemons, options: argparse.Namespace) -> int:
    daemons.lbm({"op": "reload"})
    if options.json:
        print_json({"reloaded": True})
    else:
        put("the owner's rules are read again")
    return 0


def algorithm(daemons: Daemons, options: argparse.Namespace) -> int:
    request: Json = {"op": "algorithm"}
    if options.name:
        request["name"] = options.name
    reply = daemons.lim(request)
    if options.json:
        print_json(reply)
    else:
        put(text(reply, "algorithm"))
    return 0


def param(daemons: Daemons, options: argparse.Namespace) -> int:
    """Show every parameter, show one, or change one cluster-wide."""
    if options.name is None:
        return all_params(daemons, options)
    request: Json = {"op": "param", "name": options.name}
    if options.value is not None:
        request["value"] = toml_value(options.value)
    reply = daemons.lim(request)
    if options.json:
        print_json(reply)
    else:
        name, value = text(reply, "name"), shown(reply, "value")
        if "as_set" in reply:
            told = f"{name} is set to {shown(reply, 'as_set')}; lim.adaptive turns it with the load"
            complain("lbctl", told)
        put(f"{name} = {value}")
    return 0


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


def all_params(daemons: Daemons, options: argparse.Namespace) -> int:
    """Every parameter that can be changed at run time; the LIM refuses the names of the others."""
    replies: list[Json] = []
    for section in (LimConfig, LoadConfig):
        for item in fields(section):
            try:
                replies.append(daemons.lim({"op": "param", "name": item.name}))
            except Refusal:
                continue
    if options.json:
        print_json({"params": {text(one, "name"): one.get("value") for one in replies}})
    else:
        rows = [(text(one, "name"), shown(one, "value")) for one in replies]
        print_table(("PARAMETER", ">VALUE"), rows)
    return 0
