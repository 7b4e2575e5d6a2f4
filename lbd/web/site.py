"""The addresses of the site and their responses: HTML, `.json`, and `.events` with changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lbd.console.errors import json_error, kind_of
from lbd.errors import LbdError
from lbd.local.json_socket import Refusal
from lbd.text.one_line import one_line
from lbd.web.acting import Act, Refused, host_act, job_act, read_form
from lbd.web.asked import QUERY_CHARS_MAX, SignInFirst
from lbd.web.client_uid import client_uid
from lbd.web.desk import Desk, Kind, Made, Question
from lbd.web.guard import FOREIGN
from lbd.web.memory import PIECE_BYTES, Sending, pieces_of
from lbd.web.pages.doctor import make_doctor
from lbd.web.pages.history import make_history
from lbd.web.pages.hosts import make_host, make_hosts
from lbd.web.pages.job import make_job
from lbd.web.pages.jobs import FILTER_WORDS, JOBS_WORDS, make_jobs
from lbd.web.pages.owners import make_owners
from lbd.web.pages.settings import make_settings
from lbd.web.pages.why import WHY_WORDS, make_why
from lbd.web.rendering import head_html, part_html, rest_html
from lbd.web.sessions import SESSION_S, Sessions, TooMany, is_csrf
from lbd.web.stream import Streams
from lbd.web.view import NOBODY, Message, Viewer

KINDS = (
    Kind("/", make_hosts, is_for_all=True, title="Hosts"),
    Kind("/hosts/{name}", make_host),
    Kind("/jobs", make_jobs, title="Jobs", words=JOBS_WORDS),
    Kind("/jobs/{name}", make_job),
    Kind("/history", make_history, fresh_s=5.0, is_live=False, title="History", words=FILTER_WORDS),
    Kind("/owners", make_owners, fresh_s=10.0, title="Owners"),
    Kind("/why", make_why, fresh_s=2.0, words=WHY_WORDS),
    Kind("/doctor", make_doctor, fresh_s=10.0, is_live=False, title="Doctor"),
    Kind("/settings", make_settings, fresh_s=5.0),
)
HEAD_AFTER_S = 0.01  # after this time the head of a page is sent ahead
STATIC = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
JSON_TYPE = "application/json"
STATUS = {"denied": 403, "missing": 404, "usage": 400}
Handler = Callable[[Request], Awaitable[Response]]


COOKIE = "lbd_session"
# Over TLS only: browsers accept a `__Host-` cookie only over TLS and only from this exact name.
SECURE_COOKIE = f"__Host-{COOKIE}"
MARK = "shown"  # parameter of the events' address: the version that the browser shows


class Site:
    def __init__(
        self, desk: Desk, streams: Streams, sessions: Sessions, *, is_secure: bool
    ) -> None:
        """`is_secure`: served over TLS, not only on loopback."""
        self._desk, self._streams, self._sessions = desk, streams, sessions
        self._sending = Sending()
        self._is_secure = is_secure
        self._cookie = SECURE_COOKIE if is_secure else COOKIE

    def viewer(self, request: Request) -> Viewer:
        secret = request.cookies.get(self._cookie, "")
        found = self._sessions.find(secret, time.monotonic()) if secret else None
        if found is None or not (self._is_secure or self._is_theirs(request, found.user.uid)):
            return NOBODY
        return Viewer(found.user.uid, found.user.name, found.csrf, found.key)

    def _is_theirs(self, request: Request, uid: int) -> bool:
        """Returns whether the browser belongs to that user, or to root, who may see any session."""
        client, server = request.client, request.scope.get("server")
        if client is None or server is None:
            return False
        return client_uid((client.host, client.port), (server[0], server[1])) in (uid, 0)

    async def login(self, request: Request) -> Response:
        token = request.query_params.get("token", "")
        if request.headers.get("sec-fetch-site", "none") in FOREIGN:
            return message_page("Not signed in", "open the link itself", NOBODY, 403)
        try:
            secret = self._sessions.sign_in(token, time.monotonic())
        except TooMany as problem:
            return message_page("Not signed in", str(problem), NOBODY, 503)
        if secret is None:
            text = "the link has been used or has expired: get another with lbctl web login"
            return message_page("Not signed in", text, NOBODY, 403)
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._cookie, secret, max_age=int(SESSION_S), httponly=True, samesite="strict",
            secure=self._is_secure,
        )  # fmt: skip
        return answer

    async def logout(self, request: Request) -> Response:
        viewer, refused = await self._signed(request)
        if refused is not None:
            return refused
        self._sessions.sign_out(viewer.key)
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._is_secure)
        return answer

    async def _signed(self, request: Request) -> tuple[Viewer, Response | None]:
        """Returns the viewer who sent this form, and a response if the form is refused."""
        viewer = self.viewer(request)
        if not viewer.signed_in:
            return viewer, error_page(
                SignInFirst("you are not signed in, or your session has ended"), viewer
            )
        try:
            form = await read_form(request)
        except Refused as problem:
            return viewer, message_page("Not done", str(problem), viewer, 400)
        if not is_csrf(form.get("csrf", ""), viewer.csrf):
            text = "the form belongs to another session: reload its page"
            return viewer, message_page("Not done", text, viewer, 403)
        return viewer, None

    def acts(self, act: Act) -> Handler:
        async def answer(request: Request) -> Response:
            viewer, refused = await self._signed(request)
            if refused is not None:
                return refused
            name, verb = (str(request.path_params[key]) for key in ("name", "verb"))
            try:
                then = await self._desk.act(viewer, lambda daemons: act(daemons, name, verb))
            except LbdError as problem:
                return error_page(problem, viewer)
            return RedirectResponse(then, 303)

        return answer

    def routes(self) -> Sequence[Route]:
        found = [
            Route("/static/{name}", static),
            Route("/login", self.login),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/jobs/{name}/{verb}", self.acts(job_act), methods=["POST"]),
            Route("/hosts/{name}/{verb}", self.acts(host_act), methods=["POST"]),
        ]
        for kind in KINDS:
            path = "/index" if kind.path == "/" else kind.path
            found += [
                Route(f"{path}.json", self.as_json(kind)),
                Route(f"{path}.events", self.as_events(kind)),
                Route(kind.path, self.as_page(kind)),
            ]
        return found

    def question(self, kind: Kind, request: Request, *, as_json: bool = False) -> Question:
        name = str(request.path_params.get("name", ""))[:QUERY_CHARS_MAX]
        return Question(kind, self.viewer(request), name, words(request, kind.words), as_json)

    def as_page(self, kind: Kind) -> Handler:
        async def answer(request: Request) -> Response:
            question = self.question(kind, request)
            live = events_address(request) if kind.is_live else ""
            making = asyncio.create_task(self._desk.page(question), name="page")
            try:
                # Only for pages that the viewer may see: others must get the refusal as a status
                # code.
                if kind.title and (kind.is_for_all or question.viewer.signed_in):
                    await asyncio.wait([making], timeout=HEAD_AFTER_S)
                    if not making.done():
                        return InTwo(self._in_two(question, live, making), making)
                made = await making
            except LbdError as problem:
                return error_page(problem, question.viewer)
            except asyncio.CancelledError:
                making.cancel()
                raise
            head = head_html(made.title, made.at, question.viewer, live)
            return HTMLResponse(head + self._rest(question, made))

        return answer

    async def _in_two(
        self, question: Question, live: str, making: asyncio.Task[Made]
    ) -> AsyncIterator[str]:
        """Sends the head first, so that the browser can show it and fetch files meanwhile."""
        kind = question.kind
        yield head_html(kind.title, kind.path, question.viewer, live)
        try:
            yield self._rest(question, await making)
        except LbdError as problem:
            yield message_html(f"That did not work: {problem}")

    def _rest(self, question: Question, made: Made) -> str:
        if question.kind.is_live:
            self._desk.give(question, made.drawn)
        return rest_html(made.drawn.parts, made.drawn.mark)

    def as_json(self, kind: Kind) -> Handler:
        async def answer(request: Request) -> Response:
            question = self.question(kind, request, as_json=True)
            try:
                text = (await self._desk.page(question)).json
                if len(text) > PIECE_BYTES:
                    return InPieces(text, self._sending, question.viewer.uid)
            except LbdError as problem:
                said = json_error(kind_of(problem), one_line(str(problem)), None)
                return Response(said, status_of(problem), media_type=JSON_TYPE)
            return Response(text, media_type=JSON_TYPE)

        return answer

    def as_events(self, kind: Kind) -> Handler:
        async def answer(request: Request) -> Response:
            question = self.question(kind, request)
            if self._streams.is_full(question.viewer):
                return PlainTextResponse("too many pages are open\n", 503)
            mark = request.headers.get("last-event-id") or request.query_params.get(MARK, "")
            events = self._streams.events(question, mark)
            return StreamingResponse(events, media_type="text/event-stream")

        return answer


class InTwo(StreamingResponse):
    """Sends the head of a page, then the rest once it is made. If the viewer leaves, the rest is
    cancelled."""

    def __init__(self, html: AsyncIterator[str], making: asyncio.Task[Made]) -> None:
        super().__init__(html, media_type="text/html")
        self._making = making

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._making.cancel()


class InPieces(StreamingResponse):
    """Sends a long text as the viewer reads it."""

    def __init__(self, text: str, sending: Sending, uid: int | None) -> None:
        """Raises Unavailable."""
        sending.take(uid, len(text))
        super().__init__(pieces_of(text), media_type=JSON_TYPE)
        self._give_back = partial(sending.give_back, uid, len(text))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._give_back()


def words(request: Request, known: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Returns those parameters of the address that are known, sorted, so that equal requests are
    recognised."""
    given = request.query_params
    return tuple((name, given[name][:QUERY_CHARS_MAX]) for name in sorted(known) if given.get(name))


def events_address(request: Request) -> str:
    path = request.url.path if request.url.path != "/" else "/index"
    return f"{path}.events" + (f"?{request.url.query}" if request.url.query else "")


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    body = files("lbd.web").joinpath("static", name).read_bytes()
    return Response(body, media_type=STATIC[name], headers={"cache-control": "max-age=300"})


def status_of(problem: LbdError) -> int:
    if isinstance(problem, SignInFirst):
        return 401
    return STATUS.get(problem.code, 503) if isinstance(problem, Refusal) else 503


def error_page(problem: LbdError, viewer: Viewer) -> Response:
    title = "Sign in first" if isinstance(problem, SignInFirst) else "That did not work"
    return message_page(title, str(problem), viewer, status_of(problem))


def message_page(title: str, text: str, viewer: Viewer, status: int) -> Response:
    return HTMLResponse(head_html(title, "", viewer, "") + message_html(text), status)


def message_html(text: str) -> str:
    said = Message("message", one_line(text))
    return rest_html({said.id: part_html(said)})


async def not_found(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    what = {404: "no such page", 405: "method not allowed for this page"}
    said = what.get(status, "that did not work")
    if request.url.path.endswith(".json"):
        kind = {404: "missing", 405: "usage"}.get(status, "failed")
        return Response(json_error(kind, said, None), status, media_type=JSON_TYPE)
    return message_page(f"{status}", said, NOBODY, status)
