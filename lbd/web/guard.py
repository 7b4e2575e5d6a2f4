"""Checks every request before anything else sees it, and adds headers to every response."""

import logging
import traceback
from collections.abc import Collection

from h11 import LocalProtocolError
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lbd.text.one_line import one_line

log = logging.getLogger(__name__)

TARGET_BYTES_MAX = 4096
CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # "no-referrer" would make browsers send our own forms with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# values of `Sec-Fetch-Site` for requests from other sites' pages
FOREIGN = ("cross-site", "same-site")


def why_refused(scope: Scope, hosts: Collection[str]) -> tuple[int, str] | None:
    """Returns the status and reason for refusing a request, or None. `hosts` are this page's names:
    a site that points its own name at our address (DNS rebinding) is recognised by that name."""
    headers = Headers(scope=scope)
    names = headers.getlist("host")
    if len(names) != 1 or names[0].lower() not in hosts:
        return 421, "wrong host name: use the address that lbd web printed"
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > TARGET_BYTES_MAX:
        return 414, "address too long"
    if not scope["query_string"].isascii():
        return 400, "invalid address: non-ASCII characters must be written as %XX"
    if scope["method"] == "POST" and is_foreign(headers, hosts):
        return 403, "the request came from another site's page"
    return None


def is_foreign(headers: Headers, hosts: Collection[str]) -> bool:
    """Returns whether another site's page sent this form. Browsers may withhold the origin
    (`null`); then `Sec-Fetch-Site`, which no page can set, says whether the form is ours."""
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    if site in FOREIGN:
        return True
    if origin == "null":
        return site != "same-origin"
    return origin is not None and not is_own(origin, hosts)


def is_own(origin: str, hosts: Collection[str]) -> bool:
    scheme, _, name = origin.partition("://")
    return scheme in ("http", "https") and name.lower() in hosts


class Guard:
    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, frozenset(name.lower() for name in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        has_begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = why_refused(scope, self._hosts)
        if refused is not None:
            response = PlainTextResponse(f"{refused[1]}\n", refused[0])
            await response(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive, send_with_headers)
        except (ClientDisconnect, LocalProtocolError):
            return  # the client is gone
        except Exception as problem:  # a bug in a page is logged in one line
            log.error("a %s request failed: %s", scope["method"], what_failed(problem))
            if not has_begun:
                response = PlainTextResponse("that did not work\n", 500)
                await response(scope, receive, send_with_headers)


def what_failed(problem: Exception) -> str:
    """Returns the error and where in the program it happened."""
    at = traceback.extract_tb(problem.__traceback__)[-1]
    where = "/".join(at.filename.split("/")[-2:])
    return f"{type(problem).__name__} at {where}:{at.lineno}: {one_line(str(problem), 200)}"
