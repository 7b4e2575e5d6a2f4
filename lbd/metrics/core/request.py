"""Reads and checks the head of an HTTP request to the listener. Pure.

There is no library: a connection has one request, of a method without a body, and ends with its
answer, so one line of HTTP is enough.
"""

from dataclasses import dataclass

HEAD_BYTES_MAX = 8192
METHODS = ("GET", "HEAD")
VERSIONS = ("HTTP/1.0", "HTTP/1.1")
METRICS, HEALTH, READY = "/metrics", "/healthz", "/readyz"
PATHS = (METRICS, HEALTH, READY)
END = b"\r\n\r\n"
PHRASES = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 431: "Request Header Fields Too Large", 503: "Service Unavailable",
}  # fmt: skip
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    has_body: bool  # whether the answer has a body: not for HEAD


@dataclass(frozen=True, slots=True)
class Fault:
    """The `status` of the answer, and a line for people."""

    status: int
    says: str


def read_head(head: bytes) -> Asked | Fault:
    """`head`: everything up to the empty line."""
    line, _, headers = head.partition(b"\r\n")
    try:
        words = line.decode("ascii").split(" ")
    except UnicodeDecodeError:
        words = []
    if len(words) != 3 or words[2] not in VERSIONS or not words[1].startswith("/"):
        return Fault(400, "not an HTTP/1 request")
    if not all(is_header(one) for one in headers.removesuffix(END).split(b"\r\n") if one):
        return Fault(400, "a header without a name")
    method, path, _ = words
    path = path.partition("?")[0]
    if path not in PATHS:
        return Fault(404, f"not found; try {', '.join(PATHS)}")
    if method not in METHODS:
        return Fault(405, f"allowed: {', '.join(METHODS)}")
    return Asked(path, method == "GET")


def is_header(line: bytes) -> bool:
    name, colon, _ = line.partition(b":")
    return bool(colon and name) and name == name.strip()


def answer_head(status: int, kind: str, size_bytes: int) -> bytes:
    lines = [
        f"HTTP/1.1 {status} {PHRASES[status]}",
        f"Content-Type: {kind}",
        f"Content-Length: {size_bytes}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if status == 405:
        lines.append(f"Allow: {', '.join(METHODS)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
