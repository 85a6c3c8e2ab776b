"""Random settings for each of Java's transformations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from kit.random_data import FIELDS, PATTERNS

__all__ = ["FAMILIES", "random_config"]

Config = dict[str, str]

_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "String")
_WRITTEN_ONLY = ("w W", "YYYY-ww", "F E", "Y")


def _fields(random: Random, most: int = 3, missing: float = 0.1) -> list[str]:
    chosen = random.sample(FIELDS, random.randint(1, most))
    return [name if random.random() > missing else "missing" for name in chosen]


def _named(*names: str) -> Callable[[Random], Config]:
    return lambda random: {name: ",".join(dict.fromkeys(_fields(random))) for name in names}


def _cast(random: Random) -> Config:
    if random.random() < 0.15:
        return {"spec": random.choice((*_TYPES, "bytes", "array", "int9"))}
    return {"spec": ",".join(f"{name}:{random.choice(_TYPES)}" for name in _fields(random, 4))}


def _insert_field(random: Random) -> Config:
    chosen = random.sample(("topic.field", "partition.field", "timestamp.field", "static.field"), random.randint(1, 3))
    config = {name: random.choice(("x", "a", "y")) + random.choice(("", "!", "?")) for name in chosen}
    return config | ({"static.value": "v"} if random.random() < 0.9 else {})


def _replace_field(random: Random) -> Config:
    config = {}
    for name in random.sample(("exclude", "include", "renames"), random.randint(1, 2)):
        fields = dict.fromkeys(_fields(random))
        config[name] = ",".join(f"{field}:{field}2" if name == "renames" else field for field in fields)
    return config


def _mask_field(random: Random) -> Config:
    return _named("fields")(random) | random.choice(({}, {"replacement": random.choice(("7", "***", "1.5", "300"))}))


def _header_from(random: Random) -> Config:
    fields = _fields(random)
    headers = ",".join(f"h{number}" for number in range(len(fields)))
    return {"fields": ",".join(fields), "headers": headers, "operation": random.choice(("move", "copy"))}


def _timestamp_converter(random: Random) -> Config:
    target = random.choice(("string", "unix", "Date", "Time", "Timestamp"))
    config = {"target.type": target}
    if random.random() < 0.7:
        config["field"] = random.choice(("ts", "a", "b", "c"))
    patterns = PATTERNS + (_WRITTEN_ONLY if target == "string" else ())
    if target == "string" or random.random() < 0.7:
        config["format"] = random.choice(patterns)
    if random.random() < 0.4:
        config["unix.precision"] = random.choice(("seconds", "milliseconds", "microseconds", "nanoseconds"))
    return config


def _timestamp_router(random: Random) -> Config:
    config = {}
    if random.random() < 0.7:
        config["timestamp.format"] = random.choice(PATTERNS + _WRITTEN_ONLY)
    if random.random() < 0.5:
        config["topic.format"] = random.choice(("${topic}-${timestamp}", "x", "${timestamp}${topic}${topic}$1\\"))
    return config


def _schema_metadata(random: Random) -> Config:
    config = {"schema.name": random.choice(("N", "other"))} if random.random() < 0.6 else {}
    return config | ({"schema.version": str(random.randint(0, 9))} if random.random() < 0.6 else {})


def _insert_header(random: Random) -> Config:
    return {"header": "h", "value.literal": random.choice(("1", "1.5", "true", "x", "", "[1,2]", '{"a":1}', "null"))}


_WITH_DEFAULT = frozenset(("Cast", "HeaderFrom", "SetSchemaMetadata", "TimestampConverter", "ExtractField"))
_WITH_DEFAULT |= frozenset(("InsertField", "MaskField", "ReplaceField", "ValueToKey"))

FAMILIES: dict[str, tuple[bool, Callable[[Random], Config]]] = {
    # the simple name: whether there are $Key and $Value, and its settings
    "Cast": (True, _cast),
    "DropHeaders": (False, lambda random: {"headers": random.choice(("h", "h,k", "none"))}),
    "ExtractField": (True, lambda random: {"field": _fields(random)[0]}),
    "Flatten": (True, lambda random: random.choice(({}, {"delimiter": "_"}, {"delimiter": ""}))),
    "HeaderFrom": (True, _header_from),
    "HoistField": (True, lambda random: {"field": "h"}),
    "InsertField": (True, _insert_field),
    "InsertHeader": (False, _insert_header),
    "MaskField": (True, _mask_field),
    "ReplaceField": (True, _replace_field),
    "SetSchemaMetadata": (True, _schema_metadata),
    "TimestampConverter": (True, _timestamp_converter),
    "TimestampRouter": (False, _timestamp_router),
    "ValueToKey": (False, _named("fields")),
}


def random_config(random: Random, family: str) -> Config:
    """Settings of a family, most of them good."""
    config = FAMILIES[family][1](random)
    if family in _WITH_DEFAULT and random.random() < 0.3:
        config["replace.null.with.default"] = random.choice(("true", "false"))
    return config


def chosen(random: Random, names: Sequence[str] = tuple(FAMILIES)) -> str:
    """One of the families."""
    return random.choice(names)
