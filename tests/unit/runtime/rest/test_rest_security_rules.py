"""JAAS files, users, cross-origin rules, response headers: decisions without a socket."""

from __future__ import annotations

import base64

import pytest
from starlette.responses import Response

from kconnect.errors import ConfigError
from kconnect.runtime.rest.cors import origin_check
from kconnect.runtime.rest.extensions import load_extensions
from kconnect.runtime.rest.jaas import Login, load_login, parse_jaas_file
from kconnect.runtime.rest.options import RestOptions, _joined, parse_rules
from kconnect.runtime.rest.security import credentials, find_login, jaas_file
from kconnect.runtime.rest.tls import tls_settings
from kit.asgi import call_app

MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_jaas_file_has_entries_modules_flags_options_and_comments():
    entries = parse_jaas_file(
        '/* who */ Client { x.Krb5 required debug=true keyTab="a\\"b"; };\n'
        f'KafkaConnect {{ // users\n {MODULE} required file="/a b;{{}}.properties"; {MODULE} OPTIONAL file=/c; }};'
    )
    assert entries["Client"][0].options == {"debug": "true", "keyTab": 'a"b'}
    assert [(module.flag, dict(module.options)) for module in entries["KafkaConnect"]] == [
        ("required", {"file": "/a b;{}.properties"}),
        ("optional", {"file": "/c"}),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KafkaConnect {", "ends too early"),
        ("KafkaConnect { a.B required };", "expected an option in line 1"),
        ("KafkaConnect { a.B must; };", "the flag must"),
        ('KafkaConnect {\n a.B required file="x; };', "begins in line 2 does not end"),
        ("A { }; A { };", "stands twice"),
        ("{ };", "the name of an entry"),
        ("A { a.B required; }", "ends too early"),
    ],
)
def test_a_malformed_jaas_file_is_reported_with_its_line(text, message):
    with pytest.raises(ValueError, match=message):
        parse_jaas_file(text)


def test_files_of_passwords_that_others_may_read_are_warned_of(tmp_path, caplog):
    users, jaas = tmp_path / "users", tmp_path / "jaas"
    users.write_text("ann=s3cret\n")
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};')
    users.chmod(0o600)
    jaas.chmod(0o644)
    load_login(str(jaas), "kconnect.jaas.file")
    assert caplog.messages == []  # it only says where the users are
    users.chmod(0o640)
    jaas.write_text(jaas.read_text() + 'KafkaClient { x.Plain required username="u" password="s3cret"; };')
    load_login(str(jaas), "kconnect.jaas.file")
    assert sorted(caplog.messages) == [
        f"{file} holds passwords and others may read it: chmod 600 {file}" for file in (jaas, users)
    ]


def test_users_are_read_from_the_file_that_the_entry_names(tmp_path):
    users = tmp_path / "users"
    users.write_text("ann=s3cret\nbob = with spaces \n")
    jaas = tmp_path / "jaas"
    jaas.write_text(f'other {{ {MODULE} required file="{users}"; }};')
    login = load_login(str(jaas), "kconnect.jaas.file")
    assert login.admits("ann", "s3cret")
    assert login.admits("bob", "with spaces ")
    assert not login.admits("ann", "s3cre")
    assert not login.admits("carl", "")
    assert "s3cret" not in repr(login)


@pytest.mark.parametrize(
    ("jaas", "message"),
    [
        (f'KafkaConnect {{ {MODULE} required file="{{folder}}/none"; }};', "none does not exist"),
        (f'KafkaConnect {{ {MODULE} required file="{{folder}}/empty"; }};', "is empty: nobody could log in"),
        (f"KafkaConnect {{ {MODULE} required; }};", "has no option `file`"),
        ("KafkaConnect { com.sun.LdapLoginModule required; };", "a Java class that cannot run here"),
        ('KafkaClient { x.PlainLoginModule required password="s3cret"; };', "has no entry KafkaConnect"),
        ('KafkaConnect { x.Y required password="s3cret"', "is not a JAAS file: it ends too early"),
    ],
)
def test_a_login_that_would_admit_all_or_none_is_refused_without_its_passwords(tmp_path, jaas, message):
    (tmp_path / "empty").write_text("# nobody yet\n")
    file = tmp_path / "jaas"
    file.write_text(jaas.replace("{folder}", str(tmp_path)))
    with pytest.raises(ConfigError, match=message) as caught:
        load_login(str(file), "kconnect.jaas.file")
    assert "s3cret" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["required yes", "required no"], False),
        (["required no", "sufficient yes"], False),
        (["sufficient yes", "required no"], True),
        (["sufficient no", "required yes"], True),
        (["requisite no", "sufficient yes"], False),
        (["optional no", "optional yes"], True),
        (["optional no"], False),
        (["sufficient no"], False),
        (["requisite yes", "optional no"], True),
    ],
)
def test_several_modules_count_by_their_flags_as_in_javas_login_context(flags, expected):
    modules = [flag.split() for flag in flags]
    login = Login([(flag, {"ann": "p"} if answer == "yes" else {"bob": "p"}) for flag, answer in modules])
    assert login.admits("ann", "p") is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (basic("ann:s3cret"), ("ann", "s3cret")),
        (basic("ann:a:b"), ("ann", "a:b")),
        (basic("ännchen:→"), ("ännchen", "→")),
        ("bAsIc " + base64.b64encode(b"a:").decode(), ("a", "")),
        (None, None),
        ("", None),
        ("Basic", None),
        ("Bearer abc", None),
        ("Basic !!!", None),
        (basic(":p"), None),
        (basic("ann"), None),
        ("Basic " + base64.b64encode(b"\xff:p").decode(), None),
    ],
)
def test_credentials_are_a_user_a_colon_and_a_password_in_base64(header, expected):
    assert credentials(header) == expected


def test_the_jaas_file_is_found_where_java_would_find_it_and_the_setting_wins():
    kafka = {"KAFKA_OPTS": '-Xmx1g "-Djava.security.auth.login.config=/a b.conf"'}
    assert jaas_file(None, kafka)[0] == "/a b.conf"
    assert (
        jaas_file(None, {"JAVA_TOOL_OPTIONS": "-Djava.security.auth.login.config==file:/t"} | kafka)[0] == "/a b.conf"
    )
    assert jaas_file(None, {"JAVA_TOOL_OPTIONS": "-Djava.security.auth.login.config==file:/t"})[0] == "/t"
    assert jaas_file("/mine", kafka) == ("/mine", "kconnect.jaas.file")
    assert jaas_file(None, {})[0] is None
    with pytest.raises(ConfigError, match="KAFKA_OPTS cannot be read"):
        jaas_file(None, {"KAFKA_OPTS": '"-D'})


def test_without_extensions_everybody_may_call_and_an_unknown_one_stops_the_worker():
    assert find_login([], "/none", {}) is None
    with pytest.raises(ConfigError, match=r"Invalid value x\.Guard for configuration rest\.extension\.classes"):
        load_extensions(["x.Guard"], None, {}, "BasicAuth")


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("*", "http://any.com", True),
        ("http://a.com", "http://a.com", True),
        ("http://a.com", "http://A.com", True),
        ("http://a.com", "http://axcom", False),
        ("http://a.com", "http://a.com.evil.com", False),
        ("http://a.com, https://b.com", "https://b.com", True),
        (r"https://.*\.b\.com", "https://x.b.com", True),
        (r"https://.*\.b\.com", "https://x.b.com.evil", False),
    ],
)
def test_an_origin_is_a_text_a_regular_expression_or_any(origins, origin, allowed):
    assert origin_check(origins)(origin) is allowed


@pytest.mark.parametrize(
    ("method", "site", "origin", "is_refused"),
    [
        ("POST", "cross-site", "https://evil.example", True),
        ("POST", "same-site", "https://other.shop.example", True),
        ("DELETE", "cross-site", None, True),
        ("POST", "cross-site", "https://ui.shop.example", False),
        ("POST", "same-origin", "https://worker:8083", False),
        ("POST", "none", None, False),
        ("POST", None, "https://proxied.example", False),
        ("GET", "cross-site", "https://evil.example", False),
        ("OPTIONS", "cross-site", "https://evil.example", False),
    ],
)
@pytest.mark.parametrize("listener", ["main", "admin"])
def test_no_page_of_another_origin_changes_anything(listener, method, site, origin, is_refused):
    """A POST without a body takes no preflight, and the browser sends the user's login along."""

    async def app(scope, receive, send):
        await Response(b"done", 200)(scope, receive, send)

    options = RestOptions(allowed_origins="https://ui.shop.example")
    around = options.around_main if listener == "main" else options.around_admin
    given = {"sec-fetch-site": site, "origin": origin}
    headers = {name: value for name, value in given.items() if value is not None}
    answered = call_app(around(app), method, "/connectors/orders/restart", headers)
    assert (answered.status, answered.body == b"done") == ((403, False) if is_refused else (200, True))
    if is_refused:
        assert "access.control.allow.origin" in answered.message


def test_header_rules_add_set_and_date_and_leave_the_applications_own_alone():
    rules = parse_rules('add X-A: 1, add X-A: 2, "set X-B: a, b", set X-A: 3, setDate X-D: 1000, set Content-Type: x')
    headers = _joined(rules, [(b"content-type", b"application/json")], now_s=0)
    assert headers == [
        (b"x-a", b"3"),
        (b"x-b", b"a, b"),
        (b"x-d", b"Thu, 01 Jan 1970 00:00:01 GMT"),
        (b"content-type", b"application/json"),
    ]


@pytest.mark.parametrize("rule", ["setDate X: soon", "set X: a\u2192b", "set X: a\x07b"])
def test_header_values_that_no_answer_could_carry_are_refused(rule):
    with pytest.raises(ConfigError, match=r"response\.http\.headers\.config"):
        parse_rules(rule)


def test_one_setting_under_the_prefix_makes_those_without_it_void():
    worker = {"ssl.keystore.location": "a", "ssl.client.auth": "required", "listeners": "x"}
    assert tls_settings(worker, "listeners.https.")[0] == {"ssl.keystore.location": "a", "ssl.client.auth": "required"}
    worker["listeners.https.ssl.keystore.location"] = "b"
    assert tls_settings(worker, "listeners.https.") == ({"ssl.keystore.location": "b"}, "listeners.https.")
