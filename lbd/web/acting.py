"""Actions that a signed-in user takes through a form, with the same checks as in `lbctl`."""

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request

from lbd.console.daemons import Daemons
from lbd.console.job_acts import act
from lbd.console.plain_commands import is_plain
from lbd.local.json_socket import Refusal
from lbd.web.pages.hosts import host_path
from lbd.web.pages.job import QUEUED_ID
from lbd.web.pages.jobs import job_path

FORM_BYTES_MAX = 4096
FORM_S = 5.0
FIELDS_MAX = 8
HOST_S = 10.0
JOB_VERBS = ("kill", "hold", "release")
HOST_VERBS = ("drain", "undrain")


class Refused(Exception):
    """The request does not hold a form like those of our pages."""


async def read_form(request: Request) -> dict[str, str]:
    """Raises Refused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise Refused("expected a form")
    body = b""
    try:
        async with asyncio.timeout(FORM_S):
            async for piece in request.stream():
                body += piece
                if len(body) > FORM_BYTES_MAX:
                    raise Refused("form too long")
    except (TimeoutError, ClientDisconnect):
        raise Refused("the form was not received") from None
    return form_of(body)


def form_of(body: bytes) -> dict[str, str]:
    """Raises Refused."""
    try:
        found = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise Refused("not a form") from None
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def job_act(daemons: Daemons, name: str, verb: str) -> str:
    """Acts on the job. Returns the page to show next. Raises LbdError."""
    if verb not in JOB_VERBS or not (is_plain(name) or QUEUED_ID.fullmatch(name)):
        raise Refusal("no such action", "missing")
    for why in act(daemons, [name], verb).errors:
        raise Refusal(why, "denied")
    return job_path(name)


def host_act(daemons: Daemons, name: str, verb: str) -> str:
    """Acts on the host. Returns the page to show next. Raises LbdError."""
    if verb not in HOST_VERBS:
        raise Refusal("no such action", "missing")
    daemons.lim({"op": "drain", "host": name, "drained": verb == "drain"}, HOST_S)
    return host_path(name)


Act = Callable[[Daemons, str, str], str]
