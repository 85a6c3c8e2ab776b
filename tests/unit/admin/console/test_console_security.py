"""What keeps other sites, other users and odd names out of the console."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re

import pytest
from starlette.responses import Response

from kconnect.admin.console.assets import FOLDER, assets
from kconnect.admin.console.security import refusal
from kconnect.admin.console.serving import TokenGate
from kconnect.runtime.rest.jaas import Login, load_login
from kconnect.runtime.rest.security import BasicAuth
from kit.console_pages import SAME_SITE, PageCaller
from kit.memory_herder import MemoryHerder, file_source


@pytest.fixture
def herder():
    return MemoryHerder()


@pytest.mark.parametrize(
    "target", ["/ui", "/ui/", "/ui/rows", "/ui/no-such-page", "/ui/connectors/nobody", "/ui/static/x/../../secret"]
)
def test_each_answer_has_the_content_security_policy_and_its_like(console, target):
    headers = console.ask("GET", target).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_pages_hold_no_script_or_style_of_their_own(console, herder):
    herder.put_connector("a", file_source(), replace=True)
    for target in ("/ui", "/ui/connectors/a"):
        html = console.ask("GET", target).body.decode()
        assert re.findall(r"<script(?![^>]*\bsrc=)", html) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=|hx-on|javascript:", html) == []


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7*7 }}", "a/b%c .."]
)
def test_a_connectors_name_and_trace_are_text(console, herder, name):
    herder.put_connector(name, file_source(), replace=True)
    herder.traces[name] = "java.lang.X: <img src=x onerror=alert(2)>"
    html = console.page("/ui")
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "&lt;img src=x onerror=alert(2)&gt;" in html


@pytest.mark.parametrize(
    ("headers", "reported"),
    [
        ({"host": "w:8083"}, "Origin is missing"),
        ({"host": "w:8083", "origin": "https://evil.example"}, "https://evil.example"),
        ({"host": "w:8083", "origin": "null"}, "null"),
        ({"host": "w:8083", "origin": "http://w:9999"}, "w:9999"),
        ({"host": "w:8083", "origin": "http://w:8083", "sec-fetch-site": "cross-site"}, "cross-site"),
        ({"host": "w:8083", "sec-fetch-site": "same-site"}, "same-site"),
        ({"host": "w:8083", "sec-fetch-site": "none"}, "none"),
        ({"host": "w:8083", "sec-fetch-site": "same-origin", "content-type": "text/plain"}, "forms"),
    ],
)
def test_a_request_that_no_page_of_the_console_made_is_refused(headers, reported):
    given = {"content-type": "application/x-www-form-urlencoded", **headers}
    assert reported in (refusal("POST", given) or "")
    assert refusal("GET", given) is None


def test_a_form_of_the_console_passes_with_or_without_fetch_metadata():
    form = {"host": "w:8083", "content-type": "application/x-www-form-urlencoded"}
    assert refusal("POST", {**form, "sec-fetch-site": "same-origin"}) is None
    assert refusal("POST", {**form, "origin": "http://w:8083"}) is None
    assert refusal("POST", {**form, "origin": "https://w:8083"}) is None  # a proxy in front speaks TLS


def test_a_refused_request_reaches_no_page(console, herder):
    found = console.ask("DELETE", "/ui", headers={"origin": "https://evil.example"})
    assert found.status == 403
    assert herder.calls == []


@pytest.mark.parametrize(
    "name",
    [
        "../security.py",
        "..%2fsecurity.py",
        "%2e%2e/security.py",
        "vendor/README.md",
        "/etc/passwd",
        "console.css%00",
        "",
    ],
)
def test_static_files_are_only_those_that_pages_use(console, name):
    digest = assets()["console.css"].digest
    assert console.ask("GET", f"/ui/static/{digest}/{name}").status == 404
    assert console.ask("POST", f"/ui/static/{digest}/console.css", b"", headers=SAME_SITE).status == 404


def test_a_static_file_is_kept_by_browsers_for_the_hash_in_its_name(console):
    asset = assets()["console.css"]
    found = console.ask("GET", f"/ui/static/{asset.digest}/console.css")
    assert found.status == 200
    assert found.headers["cache-control"].endswith("immutable")
    assert found.headers["content-type"].startswith("text/css")
    assert console.ask("GET", "/ui/static/000000000000/console.css").status == 404


def test_other_peoples_files_are_as_they_were_published():
    table = (FOLDER / "vendor" / "README.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| (\S+) \|.*\| (\w{64}) \|$", table, re.MULTILINE))
    folder = FOLDER / "vendor"
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    del found["README.md"]
    assert found == listed


def test_the_console_may_do_what_its_caller_may_and_no_more(herder, tmp_path):
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required "
        f'file="{tmp_path}/users"; }};\n'
    )
    (tmp_path / "users").write_text("ann=secret\n")
    login: Login = load_login(str(jaas), "kconnect.jaas.file")
    caller = PageCaller(herder, lambda app: BasicAuth(app, login))
    right = {"authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
    wrong = {"authorization": "Basic " + base64.b64encode(b"ann:guess").decode()}
    try:
        herder.put_connector("orders", file_source(), replace=True)
        assert caller.ask("GET", "/ui").status == 401
        assert caller.ask("GET", "/ui", headers=wrong).status == 401
        assert caller.ask("GET", "/ui/rows", headers=wrong).status == 401
        assert "orders" in caller.page("/ui", **right)  # its own requests carried the login
    finally:
        caller.close()


def test_connect_ui_lets_in_only_who_has_its_token():
    reached = []

    async def pages(scope, receive, send):
        reached.append(scope["path"])

    def ask(query=b"", cookie=None):
        sent = []

        async def send(message):
            sent.append(message)

        headers = [] if cookie is None else [(b"cookie", cookie.encode())]
        scope = {"type": "http", "method": "GET", "path": "/ui", "query_string": query, "headers": headers}
        asyncio.run(TokenGate(pages, "right")(scope, None, send))
        return sent[0] if sent else None

    assert ask()["status"] == 401
    assert ask(b"token=wrong")["status"] == 401
    assert ask(cookie="kconnect-console=wrong")["status"] == 401
    assert reached == []
    welcome = ask(b"token=right")
    headers = dict(welcome["headers"])
    assert (welcome["status"], headers[b"location"]) == (303, b"/ui")
    assert b"HttpOnly; SameSite=Strict" in headers[b"set-cookie"]
    assert ask(cookie="kconnect-console=right") is None
    assert reached == ["/ui"]


def test_two_consoles_on_one_machine_do_not_shut_each_other_out():
    async def pages(scope, receive, send):
        await Response("a page")(scope, receive, send)

    cookies = {}  # of the host, for all of its ports, as browsers keep them

    def ask(gate, host, query=b""):
        sent = []

        async def send(message):
            sent.append(message)

        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
        scope = {"type": "http", "method": "GET", "path": "/ui", "query_string": query, "headers": headers}
        asyncio.run(gate(scope, None, send))
        if given := dict(sent[0]["headers"]).get(b"set-cookie"):
            name, _, value = given.decode().partition(";")[0].partition("=")
            cookies[name] = value
        return sent[0]["status"]

    for first, second in [("localhost:8090", "localhost:8091"), ("[::1]:8090", "[::1]"), ("localhost", "localhost:1")]:
        cookies.clear()
        one, other = TokenGate(pages, "one"), TokenGate(pages, "other")
        assert ask(one, first, b"token=one") == 303
        assert ask(other, second, b"token=other") == 303
        assert (ask(one, first), ask(other, second)) == (200, 200)
