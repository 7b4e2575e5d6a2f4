"""What changes the cluster: `drain`, `undrain`, `algorithm`, `param`."""

import argparse
import math
import time
from dataclasses import fields

from lbd.cli.daemons import Daemons
from lbd.cli.lbctl_status import host_named
from lbd.cli.output import print_json, print_table
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
    daemons.lim(request, FORWARD_TIMEOUT_S)
    left = wait_until_empty(daemons, host, options.timeout) if options.wait else 0
    if options.json:
        print_json({"host": host, "drained": True, **({"jobs_left": left} if options.wait else {})})
    elif left:
        print(f"{host} is drained; {left} jobs of other hosts still run there")
    else:
        print(f"{host} is drained" + (" and empty" if options.wait else ": no new jobs there"))
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
    daemons.lim({"op": "drain", "host": host, "drained": False}, FORWARD_TIMEOUT_S)
    if options.json:
        print_json({"host": host, "drained": False})
    else:
        print(f"{host} takes jobs again")
    return 0


def reload(daemons: Daemons, options: argparse.Namespace) -> int:
    daemons.lbm({"op": "reload"})
    if options.json:
        print_json({"reloaded": True})
    else:
        print("the owner's rules are read again")
    return 0


def algorithm(daemons: Daemons, options: argparse.Namespace) -> int:
    request: Json = {"op": "algorithm"}
    if options.name:
        request["name"] = options.name
    reply = daemons.lim(request)
    if options.json:
        print_json(reply)
    else:
        print(text(reply, "algorithm"))
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
        print(f"{text(reply, 'name')} = {text(reply, 'value')}")
    return 0


def all_params(daemons: Daemons, options: argparse.Namespace) -> int:
    """Every parameter that can be changed at run time; the LIM refuses the names of the others."""
    params: Json = {}
    for section in (LimConfig, LoadConfig):
        for item in fields(section):
            try:
                reply = daemons.lim({"op": "param", "name": item.name})
            except Refusal:
                continue
            params[text(reply, "name")] = reply.get("value")
    if options.json:
        print_json({"params": params})
    else:
        print_table(("PARAMETER", ">VALUE"), [(name, text(params, name)) for name in params])
    return 0
