"""The listener's TLS: who can see metrics on an address other than loopback."""

import asyncio
import ssl
import time

import pytest

from lbd.config.metrics import listen_address
from lbd.config.schema import Config, HostConfig, MetricsConfig, TlsConfig
from lbd.errors import ConfigError
from lbd.metrics.daemon import ClusterTls, check
from lbd.metrics.server import Limits, MetricsServer
from lbd.net.tls import Tls
from lbd.trust import certificates
from lbd.trust.files import Credentials
from tests.unit.enrolment import enrolled, joined, made_authority

GET = b"GET /metrics HTTP/1.1\r\n\r\n"
NO_ANSWER = (ssl.SSLError, ConnectionError)


async def page():
    return b"# EOF\n"


async def nobody():
    return []


@pytest.fixture
async def shown(authority):
    """Yields h1's certificate, and the listener that presents it."""
    started = []

    def start(any_client=False, **limits):
        tls = joined(authority, "h1")
        secure = ClusterTls(tls, any_client=any_client)
        server = MetricsServer(page, nobody, secure.context, secure.check, Limits(**limits))
        started.append(server)
        return tls, server, server.listen("127.0.0.1", 0)

    yield start
    for server in started:
        await server.close()


async def asked(port, trusts, files=None):
    """Returns the answer to a client with that certificate, which accepts the authority of
    `trusts`."""
    context = ssl.create_default_context(cadata=trusts.read_authority().decode())
    if files is not None:
        context.load_cert_chain(files.credentials)
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="h1"
            )
            writer.write(GET)
            try:
                return await reader.read()
            finally:
                writer.close()
    except NO_ANSWER:
        return b""


async def test_a_host_of_the_cluster_is_answered(shown, authority):
    _, _, port = shown()
    h2 = enrolled(authority, "h2")
    assert (await asked(port, h2, h2)).endswith(b"# EOF\n")


async def test_whoever_has_no_certificate_of_the_cluster_is_not(shown, authority, tmp_path):
    _, server, port = shown()
    stranger = made_authority(tmp_path / "other", "other", "h9")
    h2, h9 = enrolled(authority, "h2"), enrolled(stranger, "h9")
    assert await asked(port, h2) == b""
    assert await asked(port, h2, h9) == b""
    assert server.statuses == {}


async def test_a_revoked_host_is_not(shown, authority, caplog):
    tls, server, port = shown()
    h2 = enrolled(authority, "h2")
    tls.learn(authority.revoke("h2"))
    assert await asked(port, h2, h2) == b""
    assert await asked(port, h2, h2) == b""
    assert server.refused == {"revoked": 2}
    said = [one for one in caplog.messages if "scrape" in one]
    assert said == ["refused a scrape: h2 is revoked"], "it asks every few seconds"


async def test_if_configured_any_client_is_answered(shown, authority):
    _, _, port = shown(any_client=True)
    assert (await asked(port, enrolled(authority, "h2"))).endswith(b"# EOF\n")


async def test_a_renewed_certificate_is_presented_from_then_on(shown, authority):
    tls, _, port = shown(any_client=True)
    before = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    key = certificates.new_key()
    chain = authority.renew("h1", 0, certificates.new_request(key, "h1"), time.time())
    tls.files.write_credentials(Credentials(key, chain))
    tls.look()
    after = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))
    assert after != before
    assert after.encode().strip() in chain


async def test_a_client_that_starts_no_handshake_is_disconnected(shown):
    _, server, port = shown(request_s=0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    assert server.statuses == {"408": 1}
    writer.close()


async def test_plain_http_is_not_a_handshake(shown):
    _, server, port = shown()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(GET)
    await reader.read()
    assert server.refused == {"tls": 1}
    writer.close()


# Where to listen


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9470", ("127.0.0.1", 9470)),
        (":9470", ("10.0.0.1", 9470)),
        ("[::1]:1", ("::1", 1)),
        ("192.0.2.7:65535", ("192.0.2.7", 65535)),
    ],
)
def test_addresses(text, address):
    assert listen_address(text, "10.0.0.1") == address


@pytest.mark.parametrize(
    "text", ["9470", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "host:1", "a:b:c",
             "127.0.0.1:-1", "127.0.0.1:１"],
)  # fmt: skip
def test_an_invalid_address_is_refused_in_one_line(text):
    with pytest.raises(ConfigError, match=r"metrics\.listen: .* must be address:port, like"):
        listen_address(text, "10.0.0.1")


def config(tmp_path, listen):
    return Config(
        host=HostConfig(name="h1", address="10.0.0.1"),
        tls=TlsConfig(dir=str(tmp_path)),
        metrics=MetricsConfig(listen=listen),
    )


@pytest.mark.parametrize("listen", [":9470", "0.0.0.0:9470", "[::]:9470"])
def test_nothing_is_shown_in_plain_beyond_loopback(tmp_path, listen):
    with pytest.raises(ConfigError) as refused:
        check(config(tmp_path, listen))
    assert str(refused.value).startswith(f"metrics.listen {listen}: without certificates")
    assert "\n" not in str(refused.value)


def test_on_loopback_no_certificate_is_needed(tmp_path):
    assert check(config(tmp_path, "127.0.0.1:9470")) is None


def test_with_a_certificate_metrics_are_shown(authority):
    files = enrolled(authority, "h1")
    assert isinstance(check(config(files.root, ":9470")), Tls)
