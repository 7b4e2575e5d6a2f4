"""Fuzz target for what a browser may send to the status page: addresses, cookies, forms."""

import asyncio

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from lbd.local.json_socket import Refusal
from lbd.web.desk import Made, json_of
from lbd.web.drawn import draw
from lbd.web.guard import Guard
from lbd.web.sessions import Sessions, User
from lbd.web.site import COOKIE, Site, not_found
from lbd.web.stream import Streams
from lbd.web.view import Line, Page

HOST = b"127.0.0.1:9480"
SECRET = "secret"
MARK = "<b>"


class NoDaemons:
    """Stands in for the desk: its pages show the request, and it refuses all actions."""

    def __init__(self):
        self.acted = 0

    async def page(self, question):
        if question.name == "missing":
            raise Refusal(f"no job {question.name} {MARK}", "missing")
        line = Line("a", question.name, f"{question.query}{question.viewer.name}")
        page = Page(question.name, [line], {"name": question.name})
        return Made(page.title, page.at, draw(page), json_of(page))

    def give(self, _question, _drawn):
        pass

    def given(self, _question, _mark):
        return None

    async def act(self, viewer, act):
        assert viewer.signed_in
        self.acted += 1
        raise Refusal("not yours", "denied")


def site():
    sessions = Sessions(lambda: SECRET)
    sessions.sign_in(sessions.link(User(1000, "ann"), 0.0), 0.0)
    desk, ending = NoDaemons(), asyncio.Event()
    ending.set()
    made = Site(desk, Streams(desk, ending), sessions, is_secure=True)
    sessions.find = lambda secret, now_s, find=sessions.find: find(secret, 1.0)
    app = Starlette(
        routes=made.routes(), middleware=[Middleware(Guard, hosts=[HOST.decode()])],
        exception_handlers={HTTPException: not_found},
    )  # fmt: skip
    return app, desk


def web_requests(data: bytes) -> None:
    """The page answers with a status of ours and the policy; no action runs without the form's
    token."""
    line, _, rest = data.partition(b"\n")
    cookie, _, body = rest.partition(b"\n")
    method, _, target = line.partition(b" ")
    path, _, query = target.partition(b"?")
    app, desk = site()
    scope = {
        "type": "http", "method": method.decode("latin-1").upper() or "GET", "http_version": "1.1",
        "path": path.decode("utf-8", "replace"), "raw_path": path, "query_string": query,
        "scheme": "http", "root_path": "", "client": None, "server": ("127.0.0.1", 9480),
        "headers": [(b"host", HOST), (b"cookie", cookie),
                    (b"content-type", b"application/x-www-form-urlencoded")],
    }  # fmt: skip
    sent = []

    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    start = sent[0]
    headers = dict(start["headers"])
    assert start["status"] in (200, 303, 307, 400, 401, 403, 404, 405, 414, 503), start
    assert b"default-src 'none'" in headers[b"content-security-policy"]
    answer = b"".join(message.get("body", b"") for message in sent)
    assert headers.get(b"content-type", b"text/html").startswith(b"application/json") or (
        MARK.encode() not in answer
    )
    assert not desk.acted or (method.upper() == b"POST" and f"csrf={SECRET}".encode() in body)


SIGNED = f"{COOKIE}={SECRET}".encode()
SEEDS = {
    "web_requests": (
        b"GET /\n",
        b"GET /jobs?name=%3Cb%3E&state=running\n" + SIGNED,
        b"GET /jobs/12_7.json\n" + SIGNED,
        b"GET /jobs/<b>.events?x=<b>\n",
        b"GET /hosts/missing\n",
        b"GET /login?token=secret\n",
        b"POST /jobs/12/kill\n" + SIGNED + b"\ncsrf=secret",
        b"POST /hosts/h1/drain\n" + SIGNED + b"\ncsrf=wrong",
        b"POST /logout\n" + SIGNED + b"\ncsrf=secret&csrf=secret",
        b"GET /static/..%2fserver.py\n",
    ),
}
ALL = (web_requests,)
