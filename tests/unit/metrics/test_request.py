"""The one line of HTTP that the listener accepts."""

import pytest

from lbd.metrics.core.request import Asked, Fault, answer_head, read_head


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n", Asked("/metrics", True)),
        (b"GET /metrics?x=1&y HTTP/1.0\r\n\r\n", Asked("/metrics", True)),
        (b"HEAD /healthz HTTP/1.1\r\nHost:\r\n\r\n", Asked("/healthz", False)),
        (b"GET /readyz HTTP/1.1\r\n\r\n", Asked("/readyz", True)),
    ],
)
def test_valid_requests(head, asked):
    assert read_head(head) == asked


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 405),
        (b"get /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET http://x/metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost x\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\n folded: x\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"", 400),
    ],
)
def test_everything_else_is_refused(head, status):
    found = read_head(head)
    assert isinstance(found, Fault)
    assert found.status == status
    assert "\n" not in found.says


def test_every_answer_states_its_length_and_that_it_is_the_last():
    head = answer_head(405, "text/plain", 12).decode()
    assert head.startswith("HTTP/1.1 405 Method Not Allowed\r\n")
    assert "Content-Length: 12\r\n" in head
    assert "Connection: close\r\n" in head
    assert "Allow: GET, HEAD\r\n" in head
    assert head.endswith("\r\n\r\n")
