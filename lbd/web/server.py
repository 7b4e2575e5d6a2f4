"""Runs the web site: its socket, the loop that reads loads, and its shutdown."""

import asyncio
import logging
import os
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.past_loads import PastLoads, ask_past_loads
from lbd.console.reply import tables, text
from lbd.errors import LbdError
from lbd.local.json_socket import Reading, serve_json
from lbd.web.address import Address, certificate_for, names_of
from lbd.web.as_user import Connector
from lbd.web.charts import Spark, spark_of
from lbd.web.connection import CONNECTIONS_MAX, BoundedConnection, bound_connections
from lbd.web.desk import Desk
from lbd.web.guard import Guard
from lbd.web.login_socket import SOCKET_MODE, Logins
from lbd.web.sessions import Sessions
from lbd.web.site import Site, not_found
from lbd.web.stream import Streams
from lbd.web.view import Viewer

log = logging.getLogger(__name__)

SAMPLE_S = 10.0
BACKLOG = 64  # connections that may wait to be accepted
KEEP_ALIVE_S = 15
END_S = 3
HEADERS_MAX_BYTES = 16 << 10


class WebServer(uvicorn.Server):
    """`run_daemon` handles signals, not uvicorn."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Web:
    def __init__(
        self, config: Config, address: Address, connector: Connector | None, directory: Path
    ) -> None:
        """`connector` connects as signed-in users if we are root; None: we act as ourselves.
        `directory` is where our own socket will be."""
        self._config, self._address, self._directory = config, address, directory
        self._certificate = certificate_for(address, config)
        self._ending = asyncio.Event()
        self._daemons = Daemons(config)
        self._connector = connector
        self._sessions = Sessions(lambda: secrets.token_urlsafe(32))
        self._desk = Desk(self._daemons_for)

    def _may_look(self, viewer: Viewer) -> bool:
        return not viewer.signed_in or self._sessions.is_open(viewer.key, time.monotonic())

    def _daemons_for(self, viewer: Viewer, reading: Reading) -> Daemons:
        """Viewers without a sign-in share our connection: they see only what anybody may."""
        connector, uid = self._connector, viewer.uid
        if connector is None or uid is None:
            return replace(self._daemons, reading=reading)
        return Daemons(
            self._config, lambda path, s: connector.connect(uid, path, s), reading=reading
        )

    @property
    def url(self) -> str:
        scheme = "https" if self._certificate else "http"
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        return f"{scheme}://{host}:{self._address.port}/"

    def app(self) -> Starlette:
        streams = Streams(self._desk, self._ending, may_look=self._may_look)
        is_secure = self._certificate is not None
        site = Site(self._desk, streams, self._sessions, is_secure=is_secure)
        return Starlette(
            routes=site.routes(),
            middleware=[Middleware(Guard, hosts=names_of(self._address, self._config))],
            exception_handlers={HTTPException: not_found},
        )

    async def run(
        self, sock: socket.socket, stop: asyncio.Event, ready: Callable[[], None]
    ) -> None:
        """Serves until `stop` is set."""
        settings = uvicorn.Config(
            self.app(), http=BoundedConnection, ws="none", lifespan="off", log_config=None,
            access_log=False, server_header=False, date_header=False, proxy_headers=False,
            limit_concurrency=2 * CONNECTIONS_MAX, timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=END_S, h11_max_incomplete_event_size=HEADERS_MAX_BYTES,
            ssl_certfile=self._certificate,
            backlog=BACKLOG,
        )  # fmt: skip
        settings.load()
        server = WebServer(settings)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # Guard logs failures
        logins = Logins(
            self._sessions, self.url, time.monotonic,
            os.geteuid() if self._connector is None else None,
        )  # fmt: skip
        login_path = self._directory / "web.sock"
        login_socket = await serve_json(login_path, logins.handle, SOCKET_MODE)
        async with asyncio.TaskGroup() as group:
            sampling = group.create_task(self._sample(), name="loads")
            serving = group.create_task(server.serve([sock]), name="pages")
            renewing = group.create_task(self._renew(settings.ssl), name="certificate")
            bounding = group.create_task(self._bound(sock), name="connections")
            ready()
            await stop.wait()
            self._ending.set()
            server.should_exit = True
            await serving
            sampling.cancel()
            renewing.cancel()
            bounding.cancel()
        self._desk.close()
        login_socket.close()
        login_path.unlink(missing_ok=True)

    async def _renew(self, context: ssl.SSLContext | None) -> None:
        """Loads a renewed certificate, for connections from then on."""
        if self._certificate is None or context is None:
            return
        shown = os.stat(self._certificate)
        while True:
            await asyncio.sleep(SAMPLE_S)
            shown = renewed(context, self._certificate, shown)

    async def _bound(self, sock: socket.socket) -> None:
        if self._certificate is not None:
            await bound_connections(sock)

    async def _sample(self) -> None:
        """Keeps the hosts' loads as recent as the LIM has them."""
        while True:
            try:
                self._desk.hour, self._desk.sparks = await asyncio.to_thread(
                    hour_of_all, self._daemons
                )
            except LbdError as problem:
                log.debug("no loads: %s", problem)
            await asyncio.sleep(SAMPLE_S)


def hour_of_all(daemons: Daemons) -> tuple[PastLoads, dict[str, Spark]]:
    """Raises LbdError."""
    hosts = [text(host, "name") for host in tables(daemons.lim({"op": "status"}), "hosts")]
    hour = ask_past_loads(daemons, hosts, "hour")
    return hour, {host: spark_of(points) for host, points in hour.hosts.items()}


def renewed(context: ssl.SSLContext, certificate: str, shown: os.stat_result) -> os.stat_result:
    """Loads the certificate if its file has changed. Returns the stat of the file in use."""
    try:
        found = os.stat(certificate)
        if (found.st_ino, found.st_mtime_ns) == (shown.st_ino, shown.st_mtime_ns):
            return shown
        context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as problem:
        log.warning("%s: still using the previous certificate: %s", certificate, problem)
        return shown
    log.info("the certificate was renewed")
    return found
