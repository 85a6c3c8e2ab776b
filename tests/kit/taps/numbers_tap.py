"""A tap written with Meltano's SDK, as most taps are: a stream of numbers with a replication key.

Settings: `upto`, `password` (which it says on stderr, as a careless one would), `pace_s` between two rows; before row
`gate_at` it waits for a file `gate`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from singer_sdk import Stream, Tap
from singer_sdk import typing as th


class Numbers(Stream):
    name = "numbers"
    primary_keys = ("n",)
    replication_key = "n"
    is_sorted = True
    STATE_MSG_FREQUENCY = 100
    schema = th.PropertiesList(
        th.Property("n", th.IntegerType),
        th.Property("at", th.DateTimeType),
        th.Property("tags", th.ArrayType(th.StringType)),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        first = self.get_starting_replication_key_value(context) or 0
        sys.stderr.write(f"reading from {first} with {self.config.get('password')}\n")
        for n in range(int(first) + (first != 0), self.config["upto"] + 1):
            time.sleep(float(self.config["pace_s"]))  # the SDK reads fractions as Decimal
            while n == self.config.get("gate_at") and not Path(self.config["gate"]).exists():
                time.sleep(0.02)
            yield {"n": n, "at": "2026-11-23T12:00:00Z", "tags": [f"t{n}"]}


class NumbersTap(Tap):
    name = "tap-numbers"
    config_jsonschema = th.PropertiesList(
        th.Property("upto", th.IntegerType, required=True),
        th.Property("password", th.StringType, secret=True),
        th.Property("pace_s", th.NumberType, default=0),
        th.Property("gate", th.StringType),
        th.Property("gate_at", th.IntegerType),
    ).to_dict()

    def discover_streams(self) -> list[Stream]:
        return [Numbers(self)]


if __name__ == "__main__":
    NumbersTap.cli()
