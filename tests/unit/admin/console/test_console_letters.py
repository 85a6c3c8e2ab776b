"""Dead letters in the console: for whom records are, what a page shows of them, and that nothing in them is HTML."""

from __future__ import annotations

import threading
from collections import Counter
from html.parser import HTMLParser

import pytest
from starlette.responses import JSONResponse

from kconnect.admin.console.dead_letters import How, Wanted, _within, parsed_ends, parsed_json
from kconnect.admin.console.html import render
from kconnect.admin.console.pages import letters
from kconnect.admin.console.shared_view import ClusterView
from kconnect.admin.dead_letters import Marks, Tally, dead_letter, letter_documents, letter_view
from kconnect.api import ConsumerRecord
from kconnect.api.rest_extension import USER
from kconnect.errors import BadRequestError, ConfigError, TimedOutError
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.access import Gatekeeper
from kconnect.runtime.rest.access.roles_file import RolesFile
from kit.console_pages import PageCaller
from kit.memory_herder import MemoryHerder, file_source
from kit.ports import free_port

URL = "/ui/connectors/orders/dead-letters"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
GRANTS = '[[grant]]\nrole = "reader"\nusers = ["rita"]\n[[grant]]\nrole = "editor"\nusers = ["eve"]\n'
PAGES = [
    ("GET", "/letters"),
    ("GET", "/letters/0@7"),
    ("GET", "/replay"),
    ("POST", "/replay"),
    ("POST", "/replay/preview"),
]


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector("orders", file_source(**{"errors.deadletterqueue.topic.name": "bad"}), replace=True)
    return herder


@pytest.fixture
def console(herder, tmp_path):
    (tmp_path / "roles.toml").write_text(GRANTS)
    settings = {"bootstrap.servers": f"127.0.0.1:{free_port()}"}
    caller = PageCaller(herder, settings=settings, gatekeeper=Gatekeeper(RolesFile(tmp_path / "roles.toml")))
    yield caller
    caller.close()


def asked(console, user, method, path):
    form = {"at": "0@7", "ends": "{}", "fingerprint": "x"}
    scope = {USER: user}
    if method == "POST":
        return console.post(f"{URL}{path}", form, scope=scope)
    return console.ask("GET", f"{URL}{path}", scope=scope)


@pytest.mark.parametrize(("method", "path"), PAGES)
def test_records_and_replays_are_refused_to_readers_before_kafka_is_asked(console, method, path):
    refused = asked(console, "rita", method, path)
    assert refused.status == 403
    assert "User rita lacks the role editor for connector orders" in refused.body.decode()
    allowed = asked(console, "eve", method, path)
    assert (allowed.status, "No Kafka broker answers" in allowed.body.decode()) == (503, True)


def test_counts_are_for_readers(console):
    assert "No Kafka broker answers" in asked(console, "rita", "GET", "").body.decode()


def test_a_console_without_brokers_says_what_to_start_it_with(herder):
    console = PageCaller(herder)
    try:
        found = console.ask("GET", f"{URL}/letters")
        assert found.status == 400
        assert "connect ui --worker FILE" in found.body.decode()
    finally:
        console.close()


def test_where_nobody_says_who_may_read_records_none_are_shown(herder):
    def without_admin(app):
        async def answer(scope, receive, send):
            if scope["path"].startswith("/admin/"):
                refused = JSONResponse({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)
                await refused(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer

    console = PageCaller(herder, without_admin, {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    try:
        found = console.ask("GET", f"{URL}/letters")
        assert (found.status, "admin.listeners" in found.body.decode()) == (400, True)
    finally:
        console.close()


def evil_letter():
    """Each part of it, and each header that Connect writes, is what an attacker would write."""
    names = ("topic", "stage", "class.name", "exception.class.name", "exception.message", "exception.stacktrace")
    headers = [(f"__connect.errors.{name}", f"{name}{EVIL}".encode()) for name in names]
    headers += [("__connect.errors.connector.name", b"orders"), (f"own{EVIL}", EVIL.encode())]
    return dead_letter(ConsumerRecord("bad", 0, 7, EVIL.encode(), EVIL.encode(), 1, headers=headers))


def shown(template, **values):
    """A page, without what is around each."""
    names = {"name": "orders", "own": "/ui/connectors/orders", "health": "running", "class_name": "", "verbs": ()}
    frame = {
        "title": "t",
        "tab": "",
        "tabs": (),
        "place": "p",
        "theme": "",
        "view": ClusterView(),
        "problem": None,
        "note": "",
    }
    html = render(
        template, {**frame, **names, "outage": None, "subs": (), "held_up": None, "notes": (), "letters": URL, **values}
    )
    return html[html.index('<main id="main"') :]


class Elements(HTMLParser):
    """What a browser makes of a page: names of its elements and their attributes."""

    def __init__(self):
        super().__init__()
        self.names, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def documents():
    return letter_documents({"name": "orders"}, {}, PluginRegistry.load(), is_source=False, note=lambda text: None)


def test_nothing_in_a_letter_is_html():
    letter = evil_letter()
    view = letter_view(letter, documents(), Marks())
    html = shown(
        "letter.html",
        **letters.letter_values(letter, view, is_whole=False),
        at="0@7",
        query="",
    )
    row = letters.row_of(letter, Marks())
    html += shown(
        "letters.html",
        topic=EVIL,
        wanted=Wanted(stage=EVIL, exception=EVIL, topic=EVIL),
        rows=[row],
        page=1,
        newer=None,
        older=None,
        query="",
        most_seen=100,
        earlier=3,
    )
    change = letters.change_of(
        {
            "letter": letter.place,
            "outcome": "replay",
            "before": documents().document(letter.as_read()).body,
            "after": {**documents().document(letter.as_read()).body, "topic": f"other{EVIL}"},
        }
    )
    html += shown(
        "letter_replay.html",
        wanted=Wanted(topic=EVIL),
        how=How(patch=EVIL),
        record=EVIL,
        example="[]",
        problem_text=EVIL,
        why_not_through=EVIL,
        plan=True,
        in_doubt=1,
        count=1,
        targets=[(EVIL, 1)],
        others=[(EVIL, 1, EVIL)],
        more=0,
        changes=[change],
        most=None,
        warnings=[EVIL],
        fingerprint="f",
        ends="{}",
    )
    assert html.count("&lt;script&gt;alert(1)") >= 20
    found = Elements()
    found.feed(html)
    assert found.names.isdisjoint({"script", "img"})
    assert [name for name in found.attributes if name.startswith("on")] == []


def test_a_long_value_is_cut_until_all_of_it_is_asked_for():
    raw = ConsumerRecord("bad", 0, 7, None, b"x" * 5_000, 1, headers=[])
    letter = dead_letter(raw)
    view = letter_view(letter, documents(), Marks())
    cut, whole = (letters.letter_values(letter, view, is_whole=is_whole) for is_whole in (False, True))
    assert (cut["is_cut"], [len(text.text) for _, text, _ in cut["parts"]]) == (True, [4, 4_000])
    assert (whole["is_cut"], [len(text.text) for _, text, _ in whole["parts"]]) == (False, [4, 5_000])


@pytest.mark.parametrize("at", ["0", "x@1", "0@-1", "-1@0", "0@1@2", "0@9999999999999999999"])
def test_a_place_is_a_partition_and_an_offset(at):
    with pytest.raises(BadRequestError, match="is not the place of a dead letter"):
        _ = Wanted(at=at).place


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"0": null}'])
def test_ends_that_no_page_wrote_are_refused(text):
    with pytest.raises(BadRequestError):
        parsed_ends(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", r"The patch is not JSON: line 1, column 2: Expecting value"),
        ("[{}\n, oops]", r"line 2, column 3"),
        ("[" * 100_000, "The patch is not JSON"),
        ("1" * 4_000_001, "The patch is longer than 4,000,000 characters"),
    ],
)
def test_a_patch_that_is_no_json_is_reported_with_its_place(text, problem):
    with pytest.raises(ConfigError, match=problem):
        parsed_json(text, "The patch")


def test_a_put_that_does_not_return_is_reported_and_not_waited_for():
    returned = threading.Event()

    def put():
        returned.wait(60)
        return Tally()

    with pytest.raises(TimedOutError, match=r"orders has not taken the dead letters within 0\.05 s") as caught:
        _within(0.05, put, "orders")
    assert "in doubt until put() returns" in caught.value.hint
    (left,) = (thread for thread in threading.enumerate() if thread.name == "put-letters-orders")
    assert left.daemon, "connect ui could not end"
    returned.set()
    left.join(10)


def test_what_the_sink_raises_is_raised_where_it_is_waited_for():
    def put():
        raise ConfigError("the database is away")

    with pytest.raises(ConfigError, match="the database is away"):
        _within(10, put, "orders")
    assert _within(10, lambda: Tally(topics=Counter(a=1)), "orders").topics == {"a": 1}
