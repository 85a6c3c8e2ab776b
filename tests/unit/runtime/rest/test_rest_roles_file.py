"""Files of roles, rules for the subjects of certificates: decisions without a socket."""

from __future__ import annotations

import logging
import os

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.rest.access.callers import Caller
from kconnect.runtime.rest.access.needs import Role
from kconnect.runtime.rest.access.principals import PrincipalRules
from kconnect.runtime.rest.access.roles import parse_roles
from kconnect.runtime.rest.access.roles_file import RolesFile

SHOP = """
[[grant]]
role = "reader"
users = ["*"]

[[grant]]
role = "operator"
users = ["bob", "carol"]
connectors = ["orders-*", "stock-?"]

[[grant]]
role = "editor"
users = ["carol"]
connectors = ["orders-eu"]

[[grant]]
role = "admin"
users = ["ann"]
"""


@pytest.mark.parametrize(
    ("user", "connector", "expected"),
    [
        ("ann", "any", Role.ADMIN),
        ("bob", "orders-eu", Role.OPERATOR),
        ("bob", "stock-1", Role.OPERATOR),
        ("bob", "stock-12", Role.READER),
        ("bob", "my-orders-eu", Role.READER),
        ("bob", "orders-\nx", Role.OPERATOR),
        ("carol", "orders-eu", Role.EDITOR),
        ("carol", "orders-us", Role.OPERATOR),
        ("carol", None, Role.EDITOR),
        ("dan", "orders-eu", Role.READER),
        ("*", "orders-eu", Role.READER),
        ("ANONYMOUS", "orders-eu", Role.READER),
        (None, "orders-eu", None),
    ],
)
def test_a_user_has_the_highest_role_that_a_grant_gives_for_the_connector(user, connector, expected):
    roles = parse_roles(SHOP, "roles.toml")
    assert roles.highest(Caller(user), connector) == expected
    for role in Role:
        assert roles.allows(Caller(user), role, connector) == (expected is not None and role <= expected)


def test_only_a_grant_to_anonymous_is_for_who_did_not_say_who_it_is():
    roles = parse_roles('[[grant]]\nrole = "reader"\nusers = ["ANONYMOUS"]\nconnectors = ["open"]', "f")
    assert roles.allows(Caller(None), Role.READER, "open")
    assert not roles.allows(Caller(None), Role.READER, "closed")
    assert not roles.allows(Caller("ANONYMOUS"), Role.READER, "open")  # a user of that name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[grant]\n", r"roles\.toml is not TOML: .*line 1"),
        ('[[grant]]\nrole = "raeder"\nusers = ["a"]', r"roles\.toml, line 2: Unknown role: raeder; roles are reader"),
        ('[[grant]]\nusers = ["a"]', "line 1: the grant has no role"),
        ('\n\n[[grant]]\nrole = "reader"', "line 3: users must be a list"),
        ('[[grant]]\nrole = "reader"\nusers = "a"', "line 3: users must be a list"),
        ('[[grant]]\nrole = "reader"\nusers = []', "line 3: users must be a list"),
        ('[[grant]]\nrole = "reader"\nusers = ["a"]\nconnectors = [1]', "line 4: connectors must be a list"),
        (
            '[[grant]]\nrole = "reader"\nusers = ["a"]\n\n[[grant]]\nrole = "reader"\nuser = ["b"]',
            "line 7: Unknown setting: user; a grant has",
        ),
        ('[[grant]]\nrole = "admin"\nusers = ["a"]\nconnectors = ["x"]', "line 4: admin is a role for the whole"),
        ('[users]\nann = "admin"', "line 1: Unknown setting: users"),
        ("# empty\n", "grants nothing"),
        ('[grant]\nrole = "reader"', "two brackets"),
    ],
)
def test_what_is_wrong_in_a_file_of_roles_is_reported_with_its_line(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parse_roles(text, "roles.toml")
    assert "[[grant]]" in caught.value.hint


def test_a_changed_file_holds_and_a_broken_one_leaves_the_last_good_one_in_force(tmp_path, caplog):
    file, clock = tmp_path / "roles.toml", [0.0]
    file.write_text(SHOP)
    roles = RolesFile(file, lambda: clock[0])

    def write(text: str, at_s: float) -> None:
        file.write_text(text)
        os.utime(file, ns=(int(at_s * 1e9), int(at_s * 1e9)))
        clock[0] = at_s

    with caplog.at_level(logging.INFO):
        write(SHOP.replace('users = ["ann"]', 'users = ["zoe"]'), 10)
        assert roles.roles().highest(Caller("zoe")) is Role.ADMIN
        assert roles.roles().highest(Caller("ann")) is Role.READER
        write("[[grant]]\nrole = 1", 20)
        for _ in range(3):
            clock[0] += 5
            assert roles.roles().highest(Caller("zoe")) is Role.ADMIN
        assert "line 2: Unknown role: 1" in roles.problem
        file.unlink()
        clock[0] += 5
        assert roles.roles().highest(Caller("zoe")) is Role.ADMIN
        assert "cannot be read" in roles.problem
        write(SHOP, 60)
        assert roles.roles().highest(Caller("ann")) is Role.ADMIN
        assert roles.problem is None
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "ERROR", "ERROR", "INFO"]  # a broken file is reported once


def test_a_file_that_fails_its_reader_by_any_error_leaves_the_last_good_one_in_force_and_is_named(tmp_path, caplog):
    file, clock = tmp_path / "roles.toml", [0.0]
    file.write_text(SHOP)
    roles = RolesFile(file, lambda: clock[0])
    file.write_text(f"grant = {'[' * 5000}")
    for _ in range(3):
        clock[0] += 5
        assert roles.roles().highest(Caller("ann")) is Role.ADMIN
    assert roles.problem.startswith(f"{file} cannot be read: RecursionError: ")
    assert [message.partition(" cannot be read")[0] for message in caplog.messages] == [str(file)]
    with pytest.raises(ConnectError, match=r"roles\.toml cannot be read: RecursionError"):
        RolesFile(file)


def test_a_broken_file_keeps_the_worker_from_starting_and_one_that_others_may_change_is_warned_of(tmp_path, caplog):
    file = tmp_path / "roles.toml"
    with pytest.raises(ConfigError, match=r"kconnect\.rest\.roles\.file=.*cannot be read"):
        RolesFile(file)
    file.write_text(SHOP)
    file.chmod(0o666)
    RolesFile(file)
    assert caplog.messages == [f"{file} says who may do what and others may change it: chmod 644 {file}"]


DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@pytest.mark.parametrize(
    ("rules", "subject", "expected"),
    [
        # the examples of KIP-371 and Kafka's documentation
        (None, DUKE, DUKE),
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U", DUKE, "DUKE@SERVICEUSERS"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/ , RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/", DUKE, None),
        ("RULE:^CN=([^,]*),.*$/a\\/$1/", DUKE, "a/Duke"),
    ],
)
def test_the_subject_of_a_certificate_becomes_a_user_by_kafkas_rules(rules, subject, expected):
    assert PrincipalRules.parse(rules).name_of(subject) == expected


@pytest.mark.parametrize("rules", ["RULE:^CN=(.*$/$1/", "RULE:^CN=.*$/$1/", "DEFAULTS", "RULE:a/b", "x,DEFAULT"])
def test_a_rule_that_is_none_is_refused_with_the_setting(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules.parse(rules)
