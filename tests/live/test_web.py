"""The status page of a lab, by HTTP as a browser asks it."""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
from urllib.parse import urlsplit

import pytest

from lbd.process.self_start import command
from tests.live.cluster import Lab

pytestmark = pytest.mark.live


class Browser:
    """What a browser keeps of a site: its address and its cookies."""

    def __init__(self, url):
        self.address = urlsplit(url).netloc
        self.cookie = ""

    def ask(self, path, method="GET", body=None, **headers):
        """(status, headers, text)"""
        if self.cookie:
            headers["Cookie"] = self.cookie
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=90)) as way:
            way.request(method, path, body, headers)
            answer = way.getresponse()
            if kept := answer.getheader("Set-Cookie"):
                self.cookie = kept.partition(";")[0]
            return answer.status, answer.headers, answer.read().decode()

    def json(self, path):
        status, _, text = self.ask(path)
        assert status == 200, text
        return json.loads(text)


@pytest.fixture(scope="module")
def queued():
    lab = Lab.up(2, "none", "--mode", "fcfs")
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def page(queued):
    """The page's address."""
    words = command("web", "--listen", "127.0.0.1:0")
    process = queued.popen("h1", *words, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait(20) == 0


@pytest.fixture
def browser(page):
    return Browser(page)


def test_a_page_has_the_numbers_of_lbctl(queued, browser):
    shown, told = browser.json("/index.json"), queued.lbctl_json("h1", "status")
    assert shown["cluster"] == told["cluster"]
    assert [set(host) for host in shown["hosts"]] == [set(host) for host in told["hosts"]]
    params = queued.lbctl_json("h1", "param")
    assert browser.json("/settings.json")["params"] == params["params"]
    status, headers, html = browser.ask("/")
    assert status == 200
    assert 'href="/hosts/h2"' in html
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert browser.json("/hosts/h2.json")["name"] == "h2"


def test_every_page_is_served(queued, signed_in):
    for path in ("/", "/jobs", "/history", "/owners", "/why", "/settings", "/doctor", "/hosts/h1"):
        assert signed_in.ask(path)[0] == 200, path
    told = queued.lbctl_json_any("h1", "doctor")
    names = [check["name"] for check in signed_in.json("/doctor.json")["checks"]]
    assert names == [check["name"] for check in told["checks"]]
    assert signed_in.json("/why.json?host=h2")["host"] == "h2"
    assert signed_in.ask("/why?host=nowhere")[0] == 400
    assert {row["host"] for row in signed_in.json("/owners.json")} == {"h1", "h2"}
    assert signed_in.json("/history.json") == queued.lbctl_json("h1", "history")


def test_a_report_is_self_contained(queued, tmp_path):
    queued.run("h1", "lbrun", "true", check=True)
    out = tmp_path / "day.html"
    told = queued.lbctl_json("h1", "report", "--out", str(out), "--since", "1h")
    assert (told["file"], told["hosts"], told["missing"]) == (str(out), ["h1", "h2"], [])
    assert told["jobs"] >= 1
    html = out.read_text()
    assert "are needed; try a longer --since" in html  # as advise says
    assert "default-src 'none'" in html
    assert not re.findall(r'(?:src|href|action)="(?!data:,")', html)
    done = queued.run("h1", "lbctl", "report", "--out", str(tmp_path / "no" / "day.html"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No such file" in done.stderr


def test_a_page_that_does_not_exist(browser):
    assert browser.ask("/hosts/h9")[0] == 404
    assert browser.ask("/nowhere")[0] == 404
    assert browser.ask("/static/../server.py")[0] == 404
    assert browser.ask("/", "DELETE")[0] == 405
    assert browser.ask("/", Host="evil.example")[0] == 421


def test_changes_appear_without_a_reload(queued, browser):
    with contextlib.closing(http.client.HTTPConnection(browser.address, timeout=120)) as way:
        way.request("GET", "/index.events")
        answer = way.getresponse()
        assert answer.getheader("Content-Type").startswith("text/event-stream")
        queued.run("h1", "lbctl", "drain", "h2", check=True)
        try:
            while "drained by" not in (line := answer.readline().decode()):
                assert line
        finally:
            queued.run("h1", "lbctl", "undrain", "h2", check=True)


def test_a_connection_without_http_is_closed(browser):
    host, _, port = browser.address.partition(":")
    for said in (b"\x00\xff" * 100 + b"\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000):
        way = socket.create_connection((host, int(port)), timeout=90)
        with way, contextlib.suppress(OSError):  # it may hang up before it has read all
            way.sendall(said)
            assert way.recv(4096).startswith(b"HTTP/1.1 400")
    assert browser.ask("/")[0] == 200


def csrf_of(html):
    return html.partition('name="csrf" value="')[2].partition('"')[0]


@pytest.fixture
def signed_in(queued, browser):
    link = queued.lbctl_json("h1", "web", "login")["url"]
    path = "/" + link.split("/", 3)[3]
    assert browser.ask(path)[0] == 303
    assert Browser(link).ask(path)[0] == 403  # it was used
    return browser


def test_jobs_are_shown_only_after_signing_in(queued, page, signed_in):
    text = "from <b>a job</b>"
    script = f"echo '{text}'; exec sleep 600"
    name = queued.run("h1", "lbrun", "-d", "sh", "-c", script, check=True).stdout.strip()
    try:
        assert [job["id"] for job in signed_in.json("/jobs.json")] == [name]
        with contextlib.closing(http.client.HTTPConnection(signed_in.address, timeout=120)) as way:
            way.request("GET", f"/jobs/{name}.events", headers={"Cookie": signed_in.cookie})
            answer = way.getresponse()
            while "from &lt;b&gt;a job" not in (line := answer.readline().decode()):
                assert line
        told = queued.lbctl_json("h1", "job", name)
        assert set(signed_in.json(f"/jobs/{name}.json")) == set(told)
        assert Browser(page).ask("/jobs.json")[0] == 401
        assert Browser(page).ask(f"/jobs/{name}")[0] == 401

        _, _, html = signed_in.ask(f"/jobs/{name}")
        token = csrf_of(html)
        path = f"/jobs/{name}/kill"
        assert signed_in.ask(path, "POST", "csrf=wrong")[0] == 403
        assert signed_in.ask(path, "POST", f"csrf={token}", Origin="http://x.example")[0] == 403
        assert Browser(page).ask(path, "POST", f"csrf={token}")[0] == 401
        assert signed_in.ask(path)[0] == 405
        assert queued.lbctl_json("h1", "job", name)["state"] == "running"
        assert signed_in.ask(path, "POST", f"csrf={token}")[0] == 303
        queued.wait_until(
            lambda: queued.lbctl_json("h1", "job", name)["state"] == "cancelled", "it is ended"
        )
        assert signed_in.ask("/jobs/9999/kill", "POST", f"csrf={token}")[0] in (403, 404)
    finally:
        queued.run("h1", "lbctl", "kill", name)


def test_hosts_are_drained_by_administrators_and_sessions_end(queued, signed_in):
    token = csrf_of(signed_in.ask("/hosts/h2")[2])
    assert signed_in.ask("/hosts/h2/drain", "POST", f"csrf={token}")[0] == 303
    assert queued.states("h1")["h2"] == "drained"
    assert signed_in.ask("/hosts/h2/undrain", "POST", f"csrf={token}")[0] == 303
    assert queued.states("h1")["h2"] != "drained"
    kept = signed_in.cookie
    assert signed_in.ask("/logout", "POST", f"csrf={token}")[0] == 303
    signed_in.cookie = kept
    assert signed_in.ask("/jobs.json")[0] == 401


@pytest.fixture(scope="module")
def chromium():
    """A real browser: Debian's Chromium, driven by Playwright."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium")
    if program is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no chromium (apt: chromium)")
    with playwright.sync_playwright() as driver:
        shown = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield shown
        shown.close()


def luminance(colour):
    """The luminance of `rgb(r, g, b)`, by WCAG's definition."""
    parts = [int(part) / 255 for part in colour.partition("(")[2].strip(")").split(",")[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


COLOURS = """() => {
  const of = (query, key) => getComputedStyle(document.querySelector(query))[key];
  const card = of("section", "backgroundColor");
  return [[of("body", "color"), of("body", "backgroundColor")], [of("h2", "color"), card],
          [of("dt", "color"), card], [of("tbody a", "color"), card], [of(".good", "color"), card]];
}"""


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_in_a_real_browser(queued, page, chromium, width, theme):
    """The policy blocks nothing, nothing is wider than the screen, and all text is readable; the
    keyboard suffices, and changes appear by themselves."""
    context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    shown, complaints = context.new_page(), []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda problem: complaints.append(str(problem)))
    link = queued.lbctl_json("h1", "web", "login")["url"]
    shown.goto(link)
    assert shown.get_by_text("signed in as").is_visible()
    for path in ("jobs", "owners", "why", "settings", "doctor", "hosts/h2", ""):
        shown.goto(page + path)
        wide = shown.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{path} is {wide} wide"
    ratios = [contrast(*pair) for pair in shown.evaluate(COLOURS)]
    assert min(ratios) >= 4.5, ratios
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.textContent") == "Skip to the content"
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.id") == "main"
    shown.wait_for_function("document.getElementById('live-state').textContent === 'live'")
    queued.run("h1", "lbctl", "drain", "h2", "--reason", f"{theme}{width}", check=True)
    try:
        shown.get_by_text(f"{theme}{width}").wait_for(timeout=20_000)
    finally:
        queued.run("h1", "lbctl", "undrain", "h2", check=True)
    shown.get_by_role("button", name="Pause").click()
    shown.get_by_role("button", name="Go on").wait_for()
    assert complaints == []
    context.close()


@pytest.fixture
def tab(queued, chromium):
    """A signed-in tab."""
    context = chromium.new_context()
    shown = context.new_page()
    shown.goto(queued.lbctl_json("h1", "web", "login")["url"])
    yield shown
    context.close()


def press(tab, name):
    """Presses the button of that name; returns the status of the page that follows."""
    with tab.expect_navigation() as navigation:
        tab.get_by_role("button", name=name).click()
    return navigation.value.status


def test_a_real_browser_may_use_every_button(queued, page, tab):
    """Browsers state for each form which page it is from: this site's forms must be accepted."""
    later = ("lbrun", "-d", "--begin", "+1h", "--name", "later", "true")
    name = queued.run("h1", *later, check=True).stdout.strip()
    try:
        tab.goto(f"{page}jobs")
        tab.get_by_label("Name").fill("later")
        assert press(tab, "Show") == 200
        tab.get_by_role("link", name=name, exact=True).click()
        assert press(tab, "Hold") == 200
        assert queued.lbctl_json("h1", "job", name)["reason"].startswith("held")
        assert press(tab, "Release") == 200
        assert not queued.lbctl_json("h1", "job", name)["reason"].startswith("held")
        assert press(tab, "End it") == 200
        assert queued.lbctl_json("h1", "job", name)["state"] == "cancelled"
        tab.goto(f"{page}hosts/h2")
        assert press(tab, "Drain") == 200
        assert queued.states("h1")["h2"] == "drained"
        assert press(tab, "Undrain") == 200
        assert queued.states("h1")["h2"] != "drained"
        tab.goto(f"{page}why")
        tab.get_by_label("Requested host (-H)").fill("h2")
        assert press(tab, "Ask") == 200
        assert press(tab, "Sign out") == 200
        assert tab.get_by_text("not signed in").is_visible()
    finally:
        queued.run("h1", "lbctl", "kill", name)
        queued.run("h1", "lbctl", "undrain", "h2")


def test_another_sites_form_is_refused_from_a_real_browser_too(queued, page, tab):
    """The other site knows the session's cookie and token; its form is refused for its origin."""
    token = tab.locator("input[name=csrf]").first.get_attribute("value")
    field = f'<input name="csrf" value="{token}">'
    form = f'<form method="post" action="{page}hosts/h2/drain">{field}<button>Go</button></form>'
    tab.route("http://elsewhere.example/", lambda route: route.fulfill(
        body=form, content_type="text/html"))  # fmt: skip
    tab.goto("http://elsewhere.example/")
    assert press(tab, "Go") == 403
    assert "another site's page" in tab.content()
    assert queued.states("h1")["h2"] != "drained"
