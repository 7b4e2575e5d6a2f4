import pytest

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.web.address import Address, certificate_for, names_of, read_address
from lbd.web.guard import Guard, why_refused

HOSTS = ("127.0.0.1:9480", "localhost:9480")


def scope(method="GET", query=b"", **headers):
    named = {"host": "127.0.0.1:9480", **headers}
    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in named.items() if v is not None]
    return {"type": "http", "method": method, "path": "/", "raw_path": b"/", "query_string": query,
            "headers": pairs}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (scope(), None),
        (scope(host="LOCALHOST:9480"), None),
        (scope(host=None), 421),
        (scope(host="evil.example:9480"), 421),
        (scope(host="127.0.0.1"), 421),
        (scope(query=b"x" * 5000), 414),
        (scope("POST", sec_fetch_site="cross-site"), 403),
        (scope("POST", sec_fetch_site="same-site"), 403),
        (scope("POST", sec_fetch_site="same-origin", origin="http://localhost:9480"), None),
        (scope("POST", origin="http://localhost:9481"), 403),
        (scope("POST", origin="null"), 403),
        # What a browser sends for our own form if it hides the origin, and for a page elsewhere,
        # even one in a sandbox.
        (scope("POST", sec_fetch_site="same-origin", origin="null"), None),
        (scope("POST", sec_fetch_site="cross-site", origin="null"), 403),
        (scope("POST", sec_fetch_site="same-site", origin="null"), 403),
        (scope("POST", sec_fetch_site="none", origin="null"), 403),
        (scope("POST", sec_fetch_site="cross-site", origin="http://127.0.0.1:9480"), 403),
        (scope("POST", sec_fetch_site="same-origin", origin="http://evil.example"), 403),
        (scope("POST"), None),  # not from a browser; the CSRF token is required all the same
    ],
)
def test_what_is_refused(asked, status):
    refused = why_refused(asked, HOSTS)
    assert (refused and refused[0]) == status


def test_two_names_are_refused():
    asked = scope()
    asked["headers"].append((b"host", b"evil.example"))
    assert why_refused(asked, HOSTS)[0] == 421


@pytest.mark.parametrize("host", ["127.0.0.1:9480", "evil.example"])
async def test_every_answer_carries_the_policy(host):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    sent = []

    async def send(message):
        sent.append(message)

    await Guard(app, HOSTS)(scope(host=host), None, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "same-origin"  # so that forms say where they come from


@pytest.mark.parametrize("text", ["", "9480", "localhost:9480", "127.0.0.1:", "127.0.0.1:99999"])
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match=r"."):
        read_address(text)


def test_names_of_an_address():
    assert read_address("[::1]:9480") == Address("::1", 9480)
    assert names_of(Address("127.0.0.1", 9480), Config()) == ["127.0.0.1:9480"]
    assert names_of(Address("::1", 80), Config()) == ["[::1]:80", "[::1]"]
    assert "localhost:9480" not in names_of(Address("10.0.0.7", 9480), Config())


def test_a_page_reachable_from_elsewhere_requires_a_certificate():
    assert certificate_for(Address("127.0.0.1", 1), Config()) is None
    with pytest.raises(ConfigError, match="certificate"):
        certificate_for(Address("10.0.0.7", 1), Config())
