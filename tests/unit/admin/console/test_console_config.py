"""Editing a config: the form, its checks, the diff, and what is put in the end."""

from __future__ import annotations

import html as html_text
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.console.config_form import config_form, config_of, field_id, properties_text, setting_changes
from kconnect.client.masks import unmasked
from kconnect.java.compat.properties import parse_properties
from kconnect.logs.redaction import HIDDEN
from kconnect.runtime.herder.validation.connector_checks import InvalidConnectorError
from kit.console_pages import PageCaller
from kit.memory_herder import MemoryHerder, file_source

URL = "/ui/connectors/orders/config"


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector("orders", file_source(name="orders", pin="1234", batch_size="5"), replace=True)
    return herder


def fields(html) -> dict[str, str]:
    """The form as a browser would send it."""
    found = dict(re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', html))
    found |= dict(re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n(.*?)</textarea>', html, re.DOTALL))
    return {key: html_text.unescape(value) for key, value in found.items() if key != "q"}


def definition(name, kind="STRING", **more):
    default = {"required": False, "default_value": None, "importance": "LOW", "documentation": "", "group": None}
    return {"name": name, "type": kind, "order_in_group": -1, "display_name": name, **default, **more}


def validation(*rows):
    configs = [
        {
            "definition": found,
            "value": {"name": found["name"], "recommended_values": [], "errors": errors, "visible": True},
        }
        for found, errors in rows
    ]
    return {"configs": configs, "error_count": sum(bool(errors) for _, errors in rows)}


def test_fields_are_in_groups_and_important_set_or_wrong_ones_come_first():
    form = config_form(
        validation(
            (definition("url", group="Connection", order_in_group=2, required=True), []),
            (definition("user", group="Connection", order_in_group=1, importance="HIGH"), []),
            (definition("retries", "INT", group="Connection", default_value="3"), []),
            (definition("batch", "INT"), ["Invalid value x for configuration batch"]),
            (definition("set"), []),
        ),
        {"set": "1", "transforms.x.foo": "bar"},
        {},
    )
    connection, general = form.groups
    assert [field.key for field in connection.main] == ["user", "url"]
    assert [field.key for field in connection.more] == ["retries"]
    assert [field.key for field in general.main] == ["batch", "set"]
    assert (form.others, form.errors) == ("transforms.x.foo=bar\n", 1)


@given(st.dictionaries(st.text(min_size=1).map(lambda key: "k" + key), st.text(), max_size=5))
def test_other_settings_come_back_as_they_were(config):
    text = properties_text(config, config)
    lines = text.replace("\n", "\r\n")  # as browsers send them
    assert unmasked(config_of([("others", lines)], config), config, "lines") == config
    assert parse_properties(text).keys() == config.keys()


def test_a_password_is_a_mask_in_the_form_and_stays_as_it_is(console, herder):
    html = console.page(URL)
    assert "1234" not in html
    form = fields(html)
    assert form["s:pin"] == HIDDEN
    found = console.post(URL, {**form, "s:topic": "u", "step": "save"})
    assert found.status == 303, found.body
    assert herder.known["orders"].config["pin"] == "1234"
    assert herder.known["orders"].config["topic"] == "u"


def test_nothing_is_lost_by_a_save_without_changes(console, herder):
    before = dict(herder.known["orders"].config)
    assert console.post(URL, {**fields(console.page(URL)), "step": "save"}).status == 303
    assert herder.known["orders"].config == before


@pytest.mark.parametrize("value", ["-----BEGIN\r\nMIIB\r\n", "a\rb", "a\nb", "\r\n"])
def test_ends_of_lines_stay_as_they_are_while_nobody_changes_the_value(console, herder, value):
    herder.patch_connector("orders", {"topic": value})
    html = console.page(URL)
    shown = re.search(r'<textarea[^>]*name="s:topic"[^>]*>\n(.*?)</textarea>', html, re.DOTALL)[1]
    sent = re.sub(r"\r\n|\r|\n", "\r\n", shown)  # as browsers send them
    assert console.post(URL, {**fields(html), "s:topic": sent, "step": "save"}).status == 303
    assert herder.known["orders"].config["topic"] == value
    assert console.post(URL, {**fields(console.page(URL)), "s:topic": f"{sent}\r\nc", "step": "save"}).status == 303
    assert herder.known["orders"].config["topic"] == f"{sent}\r\nc".replace("\r\n", "\n")


def test_the_check_says_what_is_wrong_beside_the_field(console):
    form = fields(console.page(URL))
    checked = console.post(f"{URL}/check", {**form, "s:topic": ""}, **{"hx-request": "true"}).body.decode()
    assert "1 setting to correct" in checked
    errors = re.search(rf'id="{field_id("topic")}-e" hx-swap-oob="true">([^<]+)', checked)[1]
    assert "Missing required configuration" in errors


def test_fields_are_sent_again_where_others_are_declared(console):
    form = fields(console.page(URL))
    checked = console.post(f"{URL}/check", {**form, "shape": "older"}, **{"hx-request": "true"})
    assert checked.headers["hx-retarget"] == "#fields"
    assert 'name="s:topic"' in checked.body.decode()


@pytest.fixture
def strict(herder, monkeypatch):
    """The herder refuses to validate a class that it does not have, as a worker's does."""
    validate = herder.validate_config

    def checked(config):
        if config["connector.class"] != "FileStreamSource":
            raise InvalidConnectorError("Failed to find any class that implements Connector", ())
        return validate(config)

    monkeypatch.setattr(herder, "validate_config", checked)


@pytest.mark.usefixtures("strict")
def test_while_a_class_is_typed_that_nobody_knows_yet_the_fields_stay(console):
    form = {**fields(console.page(URL)), "s:pin": "9999", "s:connector.class": "FileStreamSo"}
    checked = console.post(f"{URL}/check", form, **{"hx-request": "true"})
    assert "hx-retarget" not in checked.headers
    assert "Not checked: the plugin is not known here" in checked.body.decode()


@pytest.mark.parametrize(
    ("others", "is_kept"),
    [
        ("own.password=9999\n", True),
        ("pin=9999\n", True),  # declared as PASSWORD, and pasted among the others
        ("own=9999\nold.password=[hidden]\n", False),
        ("own.password=${env:OWN}\n", False),
    ],
)
def test_other_settings_with_a_new_secret_are_kept_by_the_browser_where_fields_are_sent_again(
    console, herder, others, is_kept
):
    herder.patch_connector("orders", {"old.password": "hunter2"})
    form = {**fields(console.page(URL)), "s:pin": "", "shape": "older", "others": others}
    checked = console.post(f"{URL}/check", form, **{"hx-request": "true"}).body.decode()
    assert ('<textarea id="others" hx-preserve' in checked) is is_kept
    assert ("9999" in checked) is ("own=9999" in others)


def test_the_review_shows_each_change_and_no_secret(console):
    form = fields(console.page(URL))
    sent = {**form, "s:topic": "u", "s:pin": "9999", "others": "x=<b>\n"}
    review = console.post(f"{URL}/review", sent, **{"hx-request": "true"}).body.decode()
    assert re.search(r'topic</th><td class="old">t</td><td class="new">u</td>', review)
    assert "another secret" in review
    assert "9999" not in review
    assert "&lt;b&gt;" in review
    assert 'value="save"' in review


def test_a_review_with_errors_cannot_be_saved(console):
    review = console.post(f"{URL}/review", {**fields(console.page(URL)), "s:topic": ""}, **{"hx-request": "true"})
    assert "1 problem" in review.body.decode()
    assert 'value="save"' not in review.body.decode()


HTMX = {"hx-request": "true"}


def test_a_config_that_somebody_else_changed_meanwhile_is_not_overwritten(console, herder):
    form = fields(console.page(URL))
    herder.patch_connector("orders", {"topic": "theirs"})
    found = console.post(URL, {**form, "step": "save"})
    assert found.status == 412
    assert "somebody else" in found.body.decode()
    assert herder.known["orders"].config["topic"] == "theirs"


def test_what_somebody_else_changed_is_shown_and_stays_below_the_readers_own_changes(console, herder):
    form = {**fields(console.page(URL)), "s:topic": "mine", "s:pin": "9999"}
    herder.patch_connector("orders", {"file": "/theirs", "batch_size": None})
    reported = console.post(URL, {**form, "step": "save"}, **HTMX).body.decode()
    assert "Somebody else has changed the config since" in reported
    assert re.search(r'batch_size</th><td class="old">5</td><td><span class="muted">not set', reported)
    assert re.search(r'file</th><td class="old">[^<]*</td><td class="new">/theirs</td>', reported)
    assert re.search(r'topic</th><td class="old">t</td><td class="new">mine</td>', reported)
    assert "9999" not in reported
    assert herder.known["orders"].config["topic"] == "t"
    agreed = html_text.unescape(re.search(r'name="agreed" value="([^"]+)"', reported)[1])
    assert console.post(URL, {**form, "step": "save", "agreed": agreed}, **HTMX).status == 204
    config = herder.known["orders"].config
    assert (config["topic"], config["file"], config["pin"]) == ("mine", "/theirs", "9999")
    assert "batch_size" not in config


def test_a_setting_that_both_have_changed_is_named_and_the_readers_is_saved(console, herder):
    form = {**fields(console.page(URL)), "s:topic": "mine"}
    herder.patch_connector("orders", {"topic": "theirs"})
    reported = console.post(f"{URL}/review", form, **HTMX).body.decode()
    assert "You have changed <code>topic</code> too" in reported
    assert re.search(r'topic</th><td class="old">theirs</td><td class="new">mine</td>', reported)


def test_another_secret_of_somebody_else_stays_and_is_reported_without_its_value(console, herder):
    form = {**fields(console.page(URL)), "s:topic": "mine"}
    herder.patch_connector("orders", {"pin": "5678"})
    reported = console.post(f"{URL}/review", form, **HTMX).body.decode()
    assert "Only a secret has become another one" in reported
    agreed = html_text.unescape(re.search(r'name="agreed" value="([^"]+)"', reported)[1])
    assert console.post(URL, {**form, "step": "save", "agreed": agreed}, **HTMX).status == 204
    assert herder.known["orders"].config["pin"] == "5678"


def test_a_change_between_our_look_and_the_put_is_refused_by_the_worker_and_shown(console, herder):
    form = {**fields(console.page(URL)), "s:topic": "mine"}
    put, first = herder.put_connector, []

    def late(name, config, **more):
        if not first:
            first.append(True)
            put(name, {**herder.known[name].config, "file": "/theirs"}, replace=True)
        return put(name, config, **more)

    herder.put_connector = late
    reported = console.post(URL, {**form, "step": "save"}, **HTMX)
    assert (reported.status, "/theirs" in reported.body.decode()) == (200, True)
    assert herder.known["orders"].config["topic"] == "t"


def test_a_worker_that_gives_no_etag_as_javas_is_asked_whether_it_is_still_the_same(herder):
    def without_tags(app):
        async def answer(scope, receive, send):
            async def send_on(message):
                if "headers" in message:
                    message["headers"] = [pair for pair in message["headers"] if pair[0] != b"etag"]
                await send(message)

            await app(scope, receive, send_on)

        return answer

    console = PageCaller(herder, without_tags)
    try:
        form = {**fields(console.page(URL)), "s:topic": "mine", "step": "save"}
        herder.patch_connector("orders", {"file": "/theirs"})
        assert console.post(URL, form).status == 412
        assert console.post(URL, {**fields(console.page(URL)), **form, **seen(console)}).status == 303
        assert herder.known["orders"].config["topic"] == "mine"
    finally:
        console.close()


def seen(console):
    return {key: value for key, value in fields(console.page(URL)).items() if key in ("based", "base")}


def test_a_form_that_was_not_reviewed_changes_nothing(console, herder):
    found = console.post(URL, {**fields(console.page(URL)), "s:topic": "u"})
    assert found.status == 400
    assert herder.known["orders"].config["topic"] == "t"


def test_a_mask_without_a_secret_behind_it_is_refused(console):
    assert console.post(f"{URL}/review", {**fields(console.page(URL)), "others": f"x={HIDDEN}"}).status == 400


def test_a_connector_is_created_from_a_plugins_form(console, herder):
    assert "/ui/create?plugin=kconnect.FileStreamSource" in console.page("/ui/create")
    form = fields(console.page("/ui/create?plugin=FileStreamSource"))
    sent = {**form, "name": "new one", "s:topic": "t", "state": "STOPPED", "others": "file=/in.txt\n"}
    assert "Create new one?" in console.post("/ui/create/review", sent).body.decode()
    assert "new one" not in herder.known
    assert console.post("/ui/create", {**sent, "step": "save"}).status == 303
    made = herder.known["new one"]
    assert made.config["file"] == "/in.txt"
    assert str(made.state) == "STOPPED"
    assert console.post("/ui/create", {**sent, "step": "save"}).status == 409  # the name is taken


@pytest.mark.usefixtures("strict")
def test_a_plugin_that_the_worker_does_not_have_is_edited_as_properties(console, herder):
    config = {"connector.class": "com.example.Gone", "name": "old", "password": "hunter2", "url": "http://ü"}
    herder.put_connector("old", config, replace=True)
    html = console.page("/ui/connectors/old/config")
    assert "hunter2" not in html
    assert "url=http://ü" in html
    assert console.post("/ui/connectors/old/config", {**fields(html), "step": "save"}).status == 303
    assert herder.known["old"].config == config


def test_changes_hide_secrets_by_name_and_by_type():
    changes = setting_changes({"a": "1", "pin": "1", "password": "x"}, {"b": "2", "pin": "2"}, {"pin"})
    assert changes == [("a", "1", None), ("b", None, "2"), ("password", HIDDEN, None), ("pin", HIDDEN, HIDDEN)]
