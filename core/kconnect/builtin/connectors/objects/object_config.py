"""The settings of ObjectSource and ObjectSink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kconnect.api import ConfigDef, ConfigError
from kconnect.builtin.connectors.objects.csv_rows import INFER, STRING
from kconnect.builtin.connectors.objects.object_formats import AUTO, COMPRESSIONS, FORMATS, READ_COMPRESSIONS
from kconnect.builtin.connectors.objects.object_names import ObjectNames
from kconnect.builtin.connectors.objects.object_text import UTF_8, check_encoding
from kconnect.builtin.stores.file_store import FileStore, StoreSettings, file_store
from kconnect.builtin.types.contracts import with_contract
from kconnect.builtin.types.declarations import with_value_schema

_T, _I = ConfigDef.Type, ConfigDef.Importance
OPTIONS_PREFIX = "object.options."
KEEP, DELETE, MOVE = "keep", "delete", "move"
IGNORE, READ, FAIL = "ignore", "read", "fail"


def object_store(url: str, props: Mapping[str, str]) -> FileStore:
    """The store of a URL, by the options of the connector. Errors: ConfigError."""
    options = {key[len(OPTIONS_PREFIX) :]: value for key, value in props.items() if key.startswith(OPTIONS_PREFIX)}
    return file_store(url, options, StoreSettings("object.url", OPTIONS_PREFIX))


def _check_path(name: str, value: Any) -> None:
    ObjectNames(str(value or ""), "jsonl", "none")


DELIMITER: Final = "csv.delimiter"


def delimiter_in(props: Mapping[str, str]) -> str | None:
    """What separates columns; None where it is not set. Settings lose blanks at their ends, of which a tab is one."""
    given = props.get(DELIMITER)
    return "\t" if given == "\\t" else given


def _check_delimiter(name: str, value: Any) -> None:
    if str(value) != "\\t":
        _check_character(name, value)


def _check_character(name: str, value: Any) -> None:
    if len(str(value)) > 1 or not str(value).isascii():
        raise ConfigError.invalid(name, value, "It must be one character of ASCII; write \\t for a tab")


def _check_encoding(name: str, value: Any) -> None:
    check_encoding(name, str(value))


def _url(table: ConfigDef, doc: str) -> ConfigDef:
    table.define_prefix(OPTIONS_PREFIX)
    with_value_schema(table)
    return table.define("object.url", _T.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), _I.HIGH, doc)


SOURCE_CONFIG = (
    _url(
        ConfigDef(), "Folder, prefix or file to read: a path, or any URL that fsspec opens, such as s3://bucket/folder."
    )
    .define(
        "topic",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Topic the rows go to.",
    )
    .define(
        "object.pattern",
        _T.STRING,
        "**",
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "Which objects below the URL: * and ? stay in a folder, ** goes below, {csv,json} is either.",
    )
    .define(
        "object.hidden",
        _T.BOOLEAN,
        False,
        None,
        _I.LOW,
        "Whether to read files that are usually not data: their names, or those of folders above, begin with _ or ., "
        "such as _SUCCESS, or end like unfinished ones, such as .tmp. A pattern with such a name reads them too.",
    )
    .define(
        "object.path.columns",
        _T.BOOLEAN,
        True,
        None,
        _I.MEDIUM,
        "Whether folders such as country=DE become fields of the rows, texts, where the object has none of the name.",
    )
    .define(
        "object.format",
        _T.STRING,
        AUTO,
        ConfigDef.ValidString.in_(AUTO, *FORMATS),
        _I.HIGH,
        "What is in them; auto: by the name, lines if that says nothing. json is one document, whose list is its rows, "
        "or several; .json is that or JSON lines, judged by its first line. A line may hold several objects.",
    )
    .define(
        "object.compression",
        _T.STRING,
        AUTO,
        ConfigDef.ValidString.in_(AUTO, *READ_COMPRESSIONS),
        _I.MEDIUM,
        "How they are compressed; auto: by the name, .gz, .zst, .bz2 or .lz4, else by the first bytes.",
    )
    .define(
        "object.order",
        _T.STRING,
        "name",
        ConfigDef.ValidString.in_("name", "time"),
        _I.MEDIUM,
        "Which comes first among new objects: the first by name, or the oldest.",
    )
    .define(
        "object.after",
        _T.STRING,
        KEEP,
        ConfigDef.ValidString.in_(KEEP, DELETE, MOVE),
        _I.HIGH,
        "What happens with an object once Kafka has all its rows and the offset is committed.",
    )
    .define(
        "object.move.url",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "Where object.after=move puts them, under the same names: a folder or prefix in the same store.",
    )
    .define(
        "object.changed",
        _T.STRING,
        IGNORE,
        ConfigDef.ValidString.in_(IGNORE, READ, FAIL),
        _I.MEDIUM,
        "When an object that was read has other content: ignore warns once, read reads it again (of lines that were "
        "appended only those), fail fails the task.",
    )
    .define(
        "object.min.age.ms",
        _T.LONG,
        0,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "Objects written more recently are left for later.",
    )
    .define(
        "object.settle.ms",
        _T.LONG,
        5000,
        ConfigDef.Range.at_least(0),
        _I.MEDIUM,
        "How long a file in a folder must not have changed until its end is its end. Before that, lines that are "
        "appended are read, and a last line without its end waits; what is cut off, such as Parquet without footer, "
        "waits twelve times as long. Stores whose objects appear as a whole, such as S3, need no wait.",
    )
    .define(
        "poll.interval.ms",
        _T.LONG,
        5000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "Time between two listings.",
    )
    .define(
        "batch.rows",
        _T.INT,
        10_000,
        ConfigDef.Range.at_least(1),
        _I.LOW,
        "Most rows of Parquet or a JSON document in one poll; lines and CSV come in blocks of 1 MiB.",
    )
    .define(
        "json.schema",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_("none", "infer"),
        _I.MEDIUM,
        "Of JSON lines: none gives values as they are; infer gives columns with types, which is faster where the next "
        "step takes columns, and a field that is missing is null.",
    )
    .define(
        "object.encoding",
        _T.STRING,
        UTF_8,
        ConfigDef.LambdaValidator.with_(_check_encoding, "an encoding, such as latin1"),
        _I.MEDIUM,
        "Encoding of lines, JSON and CSV: utf-8, latin1, cp1252, utf-16 .. A byte order mark counts before utf-8.",
    )
    .define(
        DELIMITER,
        _T.STRING,
        "",
        ConfigDef.LambdaValidator.with_(_check_delimiter, "one character"),
        _I.MEDIUM,
        "What separates columns of CSV; empty: a comma, or a tab in objects whose names end in .tsv.",
    )
    .define(
        "csv.quote",
        _T.STRING,
        '"',
        ConfigDef.LambdaValidator.with_(_check_character, "one character, or none"),
        _I.LOW,
        "What encloses values of CSV; doubled inside of them it is itself. Empty: nothing does.",
    )
    .define(
        "csv.escape",
        _T.STRING,
        "",
        ConfigDef.LambdaValidator.with_(_check_character, "one character, or none"),
        _I.LOW,
        "What takes its meaning from the next character of CSV, such as a backslash. Empty: nothing does.",
    )
    .define(
        "csv.null",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Texts of CSV that are null where they stand without quotes, such as NULL,\\N; an empty one always is.",
    )
    .define(
        "csv.header",
        _T.BOOLEAN,
        True,
        None,
        _I.MEDIUM,
        "Whether the first row of CSV names the columns; they are f0, f1, .. if not, as is one without a name. A "
        "second column of the name a is a_1.",
    )
    .define(
        "csv.columns",
        _T.LIST,
        [],
        None,
        _I.LOW,
        "Names of the columns of CSV, instead of those in its header if it has one.",
    )
    .define(
        "csv.types",
        _T.STRING,
        INFER,
        ConfigDef.ValidString.in_(INFER, STRING),
        _I.MEDIUM,
        "Types of CSV's columns. infer: whole numbers, numbers, true and false where all values of the object's first "
        "block (1 MiB) are such, and texts; 01234 is a text, as are dates. string: all are texts.",
    )
)

SINK_CONFIG = (
    _url(
        with_contract(ConfigDef()),
        "Folder or prefix to write below: a path, or any URL that fsspec opens, such as s3://bucket/x.",
    )
    .define(
        "object.format",
        _T.STRING,
        "jsonl",
        ConfigDef.ValidString.in_(*FORMATS),
        _I.HIGH,
        "What is written. lines: texts and bytes as they are; json: one list in each object.",
    )
    .define(
        "object.compression",
        _T.STRING,
        "none",
        ConfigDef.ValidString.in_(*COMPRESSIONS),
        _I.MEDIUM,
        "How objects are compressed; Parquet and Avro compress inside instead.",
    )
    .define(
        "object.path",
        _T.STRING,
        "${topic}/partition=${partition}",
        ConfigDef.LambdaValidator.with_(_check_path, "a template of topic, partition, date, fields and times"),
        _I.HIGH,
        "Folder of an object below the URL, of ${topic}, ${partition}, ${date:%Y-%m-%d}: the record's time, in letters "
        "of strftime, ${field:country}: a field of its value, and ${time:ts:%Y/%m/%d}: a field that is a time. Times "
        "are of UTC, or of the zone behind: ${date:%H:Europe/Berlin}. The object's name has topic, partition, first "
        "and last offset.",
    )
    .define(
        "flush.rows",
        _T.INT,
        100_000,
        ConfigDef.Range.at_least(1),
        _I.HIGH,
        "Most rows of a partition before its objects are written.",
    )
    .define(
        "flush.bytes",
        _T.LONG,
        64 << 20,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "About how many bytes of a partition are kept before its objects are written.",
    )
    .define(
        "flush.ms",
        _T.LONG,
        60_000,
        ConfigDef.Range.at_least(1),
        _I.HIGH,
        "Longest time a record waits before its object is written.",
    )
    .define(
        DELIMITER,
        _T.STRING,
        ",",
        ConfigDef.LambdaValidator.with_(_check_delimiter, "one character"),
        _I.MEDIUM,
        "What separates columns of CSV.",
    )
)
