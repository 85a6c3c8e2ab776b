"""Schemas and records of AvroConverter beside Avro's Java library (Spark's own jar): it reads and writes the same."""

from __future__ import annotations

import datetime
import decimal
import random
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import Date, Decimal, Schema, SchemaBuilder, Struct, Timestamp
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kconnect.java.installed import find_java
from kit.memory_registry import MemoryRegistry
from kit.pace import ample_s
from kit.places import KIT

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

_PROGRAM = KIT / "java_programs/AvroAgain.java"
_CASES = 400
_INNER = SchemaBuilder.struct().name("com.example.Inner").version(2).field("n", Schema.INT64_SCHEMA).build()
_ROW = (
    SchemaBuilder.struct()
    .name("com.example.Row")
    .doc('a row "quoted" ünï')
    .field("byte", Schema.INT8_SCHEMA)
    .field("default", SchemaBuilder.int32().optional().default(7))
    .field("double", Schema.OPTIONAL_FLOAT64_SCHEMA)
    .field("float", Schema.FLOAT32_SCHEMA)
    .field("text", SchemaBuilder.string().default("x\ny"))
    .field("bytes", SchemaBuilder.bytes().optional().default(b"\x00\xff"))
    .field("day", Date.SCHEMA)
    .field("at", Timestamp.builder().optional().build())
    .field("money", Decimal.schema(2))
    .field("list", SchemaBuilder.array(Schema.OPTIONAL_STRING_SCHEMA))
    .field("map", SchemaBuilder.map(Schema.STRING_SCHEMA, Schema.INT64_SCHEMA))
    .field("numbered", SchemaBuilder.map(Schema.INT32_SCHEMA, _INNER))
    .field("inner", _INNER)
    .build()
)


def _row(dice: random.Random) -> Struct:
    def text() -> str:
        return "".join(dice.choice('aü😀\n"') for _ in range(dice.randrange(5)))

    return Struct(
        _ROW,
        {
            "byte": dice.randrange(-128, 128),
            "default": dice.choice([None, dice.getrandbits(31), -1]),
            "double": dice.choice([None, dice.random(), -0.0, 1e300]),
            "float": float(dice.randrange(1000)) / 8,
            "text": text(),
            "bytes": dice.randbytes(dice.randrange(4)),
            "day": datetime.date.fromordinal(dice.randrange(1, 3_600_000)),
            "at": dice.choice([None, datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)]),
            "money": decimal.Decimal(dice.getrandbits(70) - (1 << 69)).scaleb(-2),
            "list": [dice.choice([None, text()]) for _ in range(dice.randrange(4))],
            "map": {"k": dice.getrandbits(63)} if dice.random() < 0.5 else {},
            "numbered": {number: Struct(_INNER, {"n": -number}) for number in range(dice.randrange(3))},
            "inner": Struct(_INNER, {"n": dice.getrandbits(40)}),
        },
    )


def test_avros_java_library_reads_what_we_write_and_writes_the_same(tmp_path: Path) -> None:
    dice, registry = random.Random(13), MemoryRegistry()
    made = AvroConverter(registry)
    made.configure({"schema.registry.url": "http://unused:1"}, False)
    values: list[tuple[Schema | None, Any]] = [(_ROW, _row(dice)) for _ in range(_CASES)]
    values += [(None, {"k": [1, "a", None, 2.5, True, 1 << 40]}), (Schema.OPTIONAL_STRING_SCHEMA, "text")]
    lines = []
    for schema, value in values:
        data = made.from_connect_data("t", schema, value)
        assert data is not None
        lines.append(f"{registry.schemas[int.from_bytes(data[1:5], 'big')]['schema']}\t{data[5:].hex()}")
    (tmp_path / "cases").write_text("\n".join(lines), "utf-8")
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    jars = Path(spark.origin).parent / "jars"
    command = [
        str(find_java("a test").executable),
        "-Dfile.encoding=UTF-8",
        "-Dstdout.encoding=UTF-8",
        "-cp",
        f"{jars}/*",
    ]

    done = subprocess.run(
        [*command, str(_PROGRAM), str(tmp_path / "cases")], capture_output=True, timeout=ample_s(60), check=False
    )

    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert done.stdout.decode("utf-8").splitlines() == lines
