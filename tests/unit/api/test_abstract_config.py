"""AbstractConfig, and the getters and helpers that Java's connectors know."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from kconnect.api import (
    AbstractConfig,
    ConfigDef,
    ConfigError,
    ConnectorUtils,
    DataError,
    Header,
    Password,
    Schema,
    SchemaBuilder,
    Struct,
)

_HIGH, _TYPE = ConfigDef.Importance.HIGH, ConfigDef.Type


class OrdersConfig(AbstractConfig):
    DEF = (
        ConfigDef()
        .define("url", _TYPE.STRING, importance=_HIGH, doc="Where.")
        .define("size", _TYPE.INT, 100, importance=_HIGH, doc="How many.")
        .define("most", _TYPE.INT, 1, importance=_HIGH, doc="At most.")
        .define("secret", _TYPE.PASSWORD, None, importance=_HIGH, doc="A secret.")
        .define("tables", _TYPE.LIST, "a,b", importance=_HIGH, doc="Which.")
        .define("ratio", _TYPE.DOUBLE, 0.5, importance=_HIGH, doc="A part.")
        .define("live", _TYPE.BOOLEAN, False, importance=_HIGH, doc="Whether.")
        .define("short", _TYPE.SHORT, 3, importance=_HIGH, doc="Short.")
        .define("long", _TYPE.LONG, 4, importance=_HIGH, doc="Long.")
        .define("class", _TYPE.CLASS, "x.Y", importance=_HIGH, doc="Class.")
    )

    def __init__(self, props: Mapping[str, Any]) -> None:
        super().__init__(self.DEF, props)

    def post_process_parsed_config(self, parsed_values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"most": max(parsed_values["most"], parsed_values["size"])}


GIVEN = {"url": "http://a", "size": "5", "secret": "s3cret", "dialect.name": "x", "dialect.": "y", "odd": "1"}


def test_settings_are_typed_and_may_depend_on_each_other() -> None:
    config = OrdersConfig(GIVEN)
    assert (config.get("url"), config.get_string("url"), config.get_int("size")) == ("http://a", "http://a", 5)
    assert config.get_int("most") == 5
    assert config.get_password("secret") == Password("s3cret")
    assert (config.get_list("tables"), config.get_double("ratio"), config.get_boolean("live")) == (
        ["a", "b"],
        0.5,
        False,
    )
    assert (config.get_short("short"), config.get_long("long"), config.get_class("class")) == (3, 4, "x.Y")
    assert (config.type_of("size"), config.documentation_of("size")) == (_TYPE.INT, "How many.")
    assert (config.type_of("odd"), config.documentation_of("odd")) == (None, None)
    assert config.values()["size"] == 5
    assert "s3cret" not in f"{config!r}{config.values()}"
    assert config == OrdersConfig(GIVEN)
    assert config != OrdersConfig({"url": "b"})


@pytest.mark.parametrize("props", [{}, {"url": "x", "size": "many"}])
def test_missing_and_invalid_settings_are_refused_when_it_is_made(props: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        OrdersConfig(props)


def test_unknown_names_and_wrong_types_are_errors() -> None:
    config = OrdersConfig(GIVEN)
    with pytest.raises(ConfigError, match="Unknown configuration 'odd'"):
        config.get("odd")
    with pytest.raises(ConfigError, match="Setting url is of type STRING, not INT"):
        config.get_int("url")


def test_settings_with_a_prefix_and_those_nobody_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    config = OrdersConfig(GIVEN)
    assert config.originals() == config.originals_strings() == GIVEN
    assert config.originals_with_prefix("dialect.") == {"name": "x"}
    assert config.originals_with_prefix("dialect.", strip=False) == {"dialect.name": "x"}
    for name in ("url", "size", "secret"):
        config.get(name)
    config.ignore("dialect.")
    assert config.unused() == {"odd"}
    with caplog.at_level(logging.INFO):
        config.log_unused()
    assert "['odd']" in caplog.text
    with pytest.raises(ConfigError, match="Setting size is not a string but int"):
        OrdersConfig({"url": "x", "size": 5}).originals_strings()


@pytest.mark.parametrize(
    ("count", "groups", "sizes"), [(7, 3, [3, 2, 2]), (2, 3, [1, 1, 0]), (0, 2, [0, 0]), (4, 1, [4]), (6, 3, [2, 2, 2])]
)
def test_elements_are_grouped_as_java_groups_them(count: int, groups: int, sizes: list[int]) -> None:
    found = ConnectorUtils.group_partitions(range(count), groups)
    assert [len(group) for group in found] == sizes
    assert [element for group in found for element in group] == list(range(count))
    with pytest.raises(ValueError, match="must be positive"):
        ConnectorUtils.group_partitions([1], 0)


_FIELDS = {
    "int8": (Schema.OPTIONAL_INT8_SCHEMA, 1),
    "int16": (Schema.INT16_SCHEMA, 2),
    "int32": (Schema.INT32_SCHEMA, 3),
    "int64": (Schema.INT64_SCHEMA, 4),
    "float32": (Schema.FLOAT32_SCHEMA, 0.5),
    "float64": (Schema.FLOAT64_SCHEMA, 0.25),
    "boolean": (Schema.BOOLEAN_SCHEMA, True),
    "string": (Schema.STRING_SCHEMA, "a"),
    "bytes": (Schema.BYTES_SCHEMA, b"b"),
    "array": (SchemaBuilder.array(Schema.INT8_SCHEMA).build(), [1]),
    "map": (SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT8_SCHEMA).build(), {"a": 1}),
    "struct": (SchemaBuilder.struct().field("x", Schema.INT8_SCHEMA).build(), None),
}


def test_typed_getters_give_what_was_put_and_refuse_other_types() -> None:
    builder = SchemaBuilder.struct().field("defaulted", SchemaBuilder.int32().default(9).build())
    for name, (schema, _) in _FIELDS.items():
        builder = builder.field(name, schema)
    struct = Struct(builder.build())
    inner = Struct(_FIELDS["struct"][0], {"x": 1})
    for name, (_, value) in _FIELDS.items():
        struct.put(name, inner if name == "struct" else value)
    for name, (_, value) in _FIELDS.items():
        assert getattr(struct, f"get_{name}")(name) == (inner if name == "struct" else value)
        other = "string" if name != "string" else "int8"
        with pytest.raises(DataError, match=f"Field '{name}' is not of type {other.upper()}"):
            getattr(struct, f"get_{other}")(name)
    assert (struct.get_int32("defaulted"), struct.get("defaulted")) == (None, 9)
    with pytest.raises(DataError, match="none is not a valid field name"):
        struct.get_int8("none")


def test_a_header_gets_another_key_or_value() -> None:
    header = Header("a", 1, Schema.INT8_SCHEMA)
    assert header.with_key("b") == Header("b", 1, Schema.INT8_SCHEMA)
    assert header.with_key("a") is header
    assert header.with_value("x", Schema.STRING_SCHEMA) == Header("a", "x", Schema.STRING_SCHEMA)
    with pytest.raises(DataError):
        header.with_value("x", Schema.INT8_SCHEMA)
    with pytest.raises(DataError, match="Null header keys"):
        header.with_key(None)  # type: ignore[arg-type]  # what Java's tests try
