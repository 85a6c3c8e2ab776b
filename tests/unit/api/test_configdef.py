from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from kconnect.api.config_parse import Password, convert_to_string, parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, NotFoundError

T, LOW = ConfigDef.Type, ConfigDef.Importance.LOW


def one(type: ConfigDef.Type, default: Any = ConfigDef.NO_DEFAULT, validator: Any = None) -> ConfigDef:
    return ConfigDef().define("k", type, default, validator, LOW, "A setting.")


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        (T.BOOLEAN, " TRUE ", True),
        (T.BOOLEAN, "false", False),
        (T.STRING, " \t\x00a b\n", "a b"),
        (T.STRING, "\xa0a", "\xa0a"),
        (T.INT, "+7", 7),
        (T.INT, "-2147483648", -2147483648),
        (T.SHORT, "32767", 32767),
        (T.LONG, "9223372036854775807", 9223372036854775807),
        (T.DOUBLE, "1.5d", 1.5),
        (T.DOUBLE, ".5e1", 5.0),
        (T.DOUBLE, "-Infinity", float("-inf")),
        (T.DOUBLE, "0x1p3", 8.0),
        (T.LIST, "a , b,,c", ["a", "b", "", "c"]),
        (T.LIST, " ", []),
        (T.CLASS, " a.B ", "a.B"),
        (T.PASSWORD, " s ", Password("s")),
    ],
)
def test_text_is_parsed_by_javas_rules(type: ConfigDef.Type, text: str, value: object) -> None:
    assert one(type).parse({"k": text}) == {"k": value}


@pytest.mark.parametrize(
    ("type", "given", "message"),
    [
        (T.BOOLEAN, "yes", "Expected value to be either true or false"),
        (T.INT, "1.5", "Not a number of type INT"),
        (T.INT, "2147483648", "Not a number of type INT"),
        (T.INT, "1_000", "Not a number of type INT"),
        (T.INT, 1.5, "Expected value to be a 32-bit integer, but it was a java.lang.Double"),
        (T.SHORT, "32768", "Not a number of type SHORT"),
        (T.LONG, "9223372036854775808", "Not a number of type LONG"),
        (T.DOUBLE, "one", "Not a number of type DOUBLE"),
        (T.STRING, 5, "Expected value to be a string, but it was a java.lang.Integer"),
        (T.PASSWORD, True, "Expected value to be a string, but it was a java.lang.Boolean"),
        (T.LIST, 5, "Expected a comma separated list."),
        (T.CLASS, 5, "Expected a Class instance or class name."),
    ],
)
def test_a_wrong_value_is_refused_in_javas_words(type: ConfigDef.Type, given: object, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        one(type).parse({"k": given})

    shown = "true" if given is True else str(given)
    assert str(refused.value) == f"Invalid value {shown} for configuration k: {message}"
    assert refused.value.problems[0].key == "k"


def test_a_missing_value_takes_the_default_or_is_refused() -> None:
    assert one(T.INT, "7").parse({}) == {"k": 7}
    with pytest.raises(ConfigError, match=r'^Missing required configuration "k" which has no default value\.$'):
        one(T.INT).parse({})


V = ConfigDef
VALIDATORS = [
    (V.Range.at_least(1), 0, "Invalid value 0 for configuration k: Value must be at least 1", "[1,...]"),
    (V.Range.between(0, 5), 6, "Invalid value 6 for configuration k: Value must be no more than 5", "[0,...,5]"),
    (V.Range.at_least(1), None, "Invalid value null for configuration k: Value must be non-null", "[1,...]"),
    (V.ValidString.in_("a", "b"), "c", "Invalid value c for configuration k: String must be one of: a, b", "[a, b]"),
    (
        V.CaseInsensitiveValidString.in_("a"),
        "c",
        "Invalid value c for configuration k: String must be one of (case insensitive): A",
        "(case insensitive) [A]",
    ),
    (V.NonNull(), None, "Invalid value null for configuration k: entry must be non null", "non-null string"),
    (V.NonEmptyString(), "", "Invalid value  for configuration k: String must be non-empty", "non-empty string"),
    (
        V.NonEmptyStringWithoutControlChars(),
        "a\tb",
        "Invalid value a\tb for configuration k: "
        "String may not contain control sequences but had the following ASCII chars: 9",
        "non-empty string without ISO control characters",
    ),
    (V.ValidList.in_("a"), ["b"], "Invalid value b for configuration k: String must be one of: a", "[a]"),
    (V.ValidList.any_non_duplicate_values(False, False), None, "Configuration 'k' values must not be null.", ""),
    (
        V.ValidList.any_non_duplicate_values(False, False),
        [],
        "Configuration 'k' must not be empty. Valid values include: any non-empty value",
        "",
    ),
    (
        V.ValidList.any_non_duplicate_values(True, True),
        ["a", "a"],
        "Configuration 'k' values must not be duplicated.",
        "",
    ),
    (V.ValidList.any_non_duplicate_values(True, True), ["a", ""], "Configuration 'k' values must not be empty.", ""),
    (
        V.ListSize.at_most_of_size(1),
        ["a", "b"],
        "Invalid value [a, b] for configuration k: exceeds maximum list size of [1].",
        "List containing maximum of 1 elements",
    ),
    (
        V.CompositeValidator.of(V.NonNull(), V.NonEmptyString()),
        "",
        "Invalid value  for configuration k: String must be non-empty",
        "non-null string, non-empty string",
    ),
]


@pytest.mark.parametrize(("validator", "bad", "message", "text"), VALIDATORS, ids=str)
def test_validators_speak_as_javas(validator: Any, bad: object, message: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validator.ensure_valid("k", bad)

    assert str(refused.value) == message
    assert str(validator) == text


def test_a_default_must_pass_the_validator() -> None:
    with pytest.raises(ConfigError, match="Value must be at least 1"):
        one(T.INT, 0, V.Range.at_least(1))


def test_parse_takes_duplicates_out_of_a_valid_list_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    table = one(T.LIST, [], V.ValidList.any_non_duplicate_values(True, False))

    with caplog.at_level(logging.WARNING):
        assert table.parse({"k": "a,b,a"}) == {"k": ["a", "b"]}

    assert 'Configuration key "k" contains duplicate values.' in caplog.text


def test_a_key_is_defined_once() -> None:
    with pytest.raises(ConfigError, match=r"^Configuration k is defined twice\.$"):
        one(T.INT).define("k", T.INT, 1, None, LOW, "Again.")


def test_validate_reports_every_row_in_order_and_raises_nothing() -> None:
    table = one(T.INT, V.NO_DEFAULT, V.Range.at_least(1)).define("s", T.STRING, "d", None, LOW, "Another.")

    first, second = table.validate({"k": "x"})

    assert (first.name, first.value, first.error_messages) == (
        "k",
        None,
        [
            "Invalid value x for configuration k: Not a number of type INT",
            "Invalid value null for configuration k: Value must be non-null",
        ],
    )
    assert (second.name, second.value, second.error_messages) == ("s", "d", [])


class OfferFor:
    """Recommends what depends on another setting."""

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return [parsed["a"], "other"]

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed["a"] == "shown"


def test_recommenders_see_the_other_settings() -> None:
    table = ConfigDef().define("a", T.STRING, "x", None, LOW, "First.", dependents=["b"])
    table.define("b", T.STRING, None, None, LOW, "Second.", recommender=OfferFor())

    found = table.validate_all({"a": "shown"})["b"]

    assert (found.recommended_values, found.visible) == (["shown", "other"], True)


def test_a_dependent_that_is_not_defined_is_reported() -> None:
    table = ConfigDef().define("a", T.STRING, "x", None, LOW, "First.", dependents=["gone"])

    assert table.validate_all({})["gone"].error_messages == ["gone is referred in the dependents, but not defined."]
    with pytest.raises(ConfigError, match="but not defined: gone"):
        table.parse({})


def test_embedding_prefixes_names_groups_and_dependents_and_sorts_as_java() -> None:
    child = ConfigDef().define(
        "z", T.STRING, None, None, ConfigDef.Importance.MEDIUM, "Z.", group="G", dependents=["b"]
    )
    child.define("b", T.STRING, None, V.NonEmptyString(), ConfigDef.Importance.MEDIUM, "B.", group="G")
    child.define("must", T.STRING, V.NO_DEFAULT, None, LOW, "M.", group="G")
    table = ConfigDef()

    table.embed("p.", "Outer", 2, child)

    assert [(key.name, key.group, key.order) for key in table.config_keys.values()] == [
        ("p.must", "Outer: G", 2),
        ("p.b", "Outer: G", 3),
        ("p.z", "Outer: G", 4),
    ]
    assert table.config_keys["p.z"].dependents == ("p.b",)
    assert table.validate_all({"p.must": "x", "p.b": ""})["p.b"].error_messages == [
        "Invalid value  for configuration b: String must be non-empty"
    ]


def test_a_copy_does_not_share_rows_with_its_base() -> None:
    base = one(T.INT, 1)
    copy = ConfigDef(base).define("more", T.INT, 2, None, LOW, "More.")

    assert base.names() == {"k"}
    assert list(copy.config_keys) == ["k", "more"]


def test_classes_are_looked_up_when_a_finder_is_given() -> None:
    def find(name: str) -> object:
        raise NotFoundError(name)

    assert one(T.CLASS).parse({"k": "no.Such"}) == {"k": "no.Such"}
    with pytest.raises(ConfigError, match=r"Class no\.Such could not be found\."):
        one(T.CLASS).parse({"k": "no.Such"}, find)


def test_a_password_never_shows() -> None:
    secret = parse_type("k", "hunter2", T.PASSWORD)

    assert f"{secret} {secret!r} {convert_to_string(secret, T.PASSWORD)}" == "[hidden] [hidden] [hidden]"
    assert secret.value == "hunter2"


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (None, T.STRING, None),
        (True, T.BOOLEAN, "true"),
        (["a", "b"], T.LIST, "a,b"),
        (2.0, T.DOUBLE, "2.0"),
        (7, T.INT, "7"),
    ],
)
def test_values_turn_to_text_as_in_java(value: object, type: ConfigDef.Type, text: str | None) -> None:
    assert convert_to_string(value, type) == text
