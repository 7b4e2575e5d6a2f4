"""A slow page is begun at once; one that is quick, or refused, is sent as a whole."""

import asyncio
import json
import threading
import time

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse

from lbd.errors import Unavailable
from lbd.web.asked import SignInFirst
from lbd.web.desk import Desk, Kind
from lbd.web.sessions import Sessions, User
from lbd.web.site import KINDS, Site, not_found
from lbd.web.stream import Streams
from lbd.web.view import Line, Page


class Slow:
    def __init__(self, problem=None):
        self.held = threading.Event()
        self.problem = problem

    def make(self, asked):
        self.held.wait(20)
        if self.problem:
            raise self.problem
        return Page("Hosts", [Line("a", "A", "made")], at="/")


@pytest.fixture
def site():
    desk = Desk(lambda viewer, reading: None)
    sessions = Sessions(lambda: "secret")
    yield Site(desk, Streams(desk, asyncio.Event()), sessions, is_secure=False)
    desk.close()


def request():
    return Request({"type": "http", "method": "GET", "scheme": "http", "path": "/",
                    "query_string": b"", "headers": [], "server": ("h", 80), "client": None,
                    "path_params": {}})  # fmt: skip


def page_of(site, slow, **more):
    kind = Kind("/", slow.make, **{"is_for_all": True, "title": "Hosts", **more})
    return asyncio.create_task(site.as_page(kind)(request()))


@pytest.mark.parametrize(
    ("problem", "said"), [(None, "made"), (Unavailable("lim is not running"), "lim is not running")]
)
async def test_the_head_of_a_slow_page_is_sent_first(site, problem, said):
    slow = Slow(problem)
    answer = await page_of(site, slow)
    assert isinstance(answer, StreamingResponse)
    pieces = aiter(answer.body_iterator)
    head = await anext(pieces)
    assert "<h1>Hosts</h1>" in head
    assert 'data-live="/index.events"' in head
    slow.held.set()
    rest = await anext(pieces)
    assert said in rest
    assert rest.endswith("</html>")
    assert [piece async for piece in pieces] == []


async def test_nobody_waits_for_a_page_whose_viewer_has_left(site):
    slow = Slow()
    answer = await page_of(site, slow)
    waiting = [task for task in asyncio.all_tasks() if task.get_name() == "page"]
    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    with pytest.raises(ClientDisconnect):
        await answer(scope, None, gone)
    slow.held.set()
    assert [task.cancelled() for task in await ended(waiting)].count(True) == 1


async def gone(message):
    raise OSError("the viewer has left")


async def ended(tasks):
    return (await asyncio.wait(tasks))[0]


async def test_a_ready_page_is_sent_as_a_whole(site):
    slow = Slow()
    slow.held.set()
    await page_of(site, slow, title="")
    answer = await page_of(site, slow)
    assert answer.body.count(b"</html>") == 1
    assert b"<h1>Hosts</h1>" in answer.body


async def test_a_viewer_who_may_not_see_a_page_gets_that_as_the_status(site):
    slow = Slow(SignInFirst("sign in"))
    asking = page_of(site, slow, is_for_all=False)
    await asyncio.sleep(0)
    slow.held.set()
    assert (await asking).status_code == 401


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.path)
def test_a_parameter_that_a_page_does_not_know_makes_no_other_page(site, kind):
    def key(query):
        return site.question(kind, Request(request().scope | {"query_string": query})).key

    assert key(b"z=1&shown=0123&user") == key(b"z=2") == key(b"")
    assert (key(b"host=h1&z=1") == key(b"host=h2&z=1")) == ("host" not in kind.words)
    assert key(b"state=done&host=h1") == key(b"host=h1&state=done")


@pytest.mark.parametrize(
    ("is_secure", "begins", "more"),
    [
        (True, "__Host-lbd_session=", ["HttpOnly", "Path=/", "SameSite=strict", "Secure"]),
        (False, "lbd_session=", ["HttpOnly", "Path=/", "SameSite=strict"]),
    ],
)
async def test_the_cookie_is_of_this_page_alone(is_secure, begins, more):
    """With TLS, no other name of the domain, and nothing without TLS, can replace it."""
    sessions = Sessions(lambda: "secret")
    sessions.link(User(1001, "ann"), time.monotonic())
    site = Site(None, None, sessions, is_secure=is_secure)
    asked = Request(request().scope | {"query_string": b"token=secret"})
    kept = (await site.login(asked)).headers["set-cookie"]
    assert kept.startswith(f"{begins}secret;")
    assert sorted(one for one in kept.split("; ")[1:] if not one.startswith("Max")) == more


def test_by_tls_no_other_cookie_signs_in():
    sessions = Sessions(lambda: "secret")
    sessions.link(User(1001, "ann"), time.monotonic())
    assert sessions.sign_in("secret", time.monotonic()) == "secret"
    site = Site(None, None, sessions, is_secure=True)
    names = [b"lbd_session", b"__Host-lbd_session"]
    asked = [Request(request().scope | {"headers": [(b"cookie", name + b"=secret")]})
             for name in names]  # fmt: skip
    assert [site.viewer(one).signed_in for one in asked] == [False, True]


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [("/nope.json", 404, "missing"), ("/jobs.json", 405, "usage"), ("/nope", 404, None)],
)
async def test_an_address_that_does_not_exist_is_answered_in_its_form(path, status, kind):
    asked = Request({"type": "http", "method": "GET", "scheme": "http", "path": path,
                     "query_string": b"", "headers": [], "server": ("h", 80)})  # fmt: skip
    answer = await not_found(asked, HTTPException(status))
    assert answer.status_code == status
    if kind is None:
        assert b"no such page" in answer.body
        assert answer.media_type == "text/html"
    else:
        assert json.loads(answer.body)["error"]["kind"] == kind
        assert answer.media_type == "application/json"
