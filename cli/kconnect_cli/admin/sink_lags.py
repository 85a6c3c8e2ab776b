"""Offsets of connectors with the lag of sinks: as their worker tells it, else as the brokers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kconnect.logs.wording import pluralize
from kconnect.model import ConnectorOffset, SinkLag
from kconnect_cli.screen.output import Row, json_cell
from kconnect_cli.session import CliSession

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def offsets_and_lags(
    session: CliSession, names: Sequence[str]
) -> tuple[dict[str, list[ConnectorOffset]], dict[str, SinkLag]]:
    """The offsets of each connector, and the lag of those that are sinks and of which it is known."""
    found: dict[str, list[ConnectorOffset]] = {}
    lags: dict[str, SinkLag] = {}
    for name in names:
        offsets, lag = session.on_connector(name, session.reader.offsets_and_lag)
        found[name] = offsets
        if lag is not None:
            lags[name] = lag
    return found, lags


def is_of_sink(offsets: Sequence[ConnectorOffset]) -> bool:
    """Whether these are offsets of a consumer group."""
    return any(_TOPIC in item.partition for item in offsets)


def offset_rows(name: str, offsets: Sequence[ConnectorOffset], lag: SinkLag | None) -> list[Row]:
    """A row for each partition: those with an offset, and those of a sink that have none yet."""
    rows: list[Row] = []
    by_place = {(item.topic, item.partition): item for item in (() if lag is None else lag.partitions)}
    for item in offsets:
        known = by_place.pop((item.partition.get(_TOPIC), item.partition.get(_PARTITION)), None)  # type: ignore[arg-type]
        rows.append(
            {
                "name": name,
                "partition": json_cell(item.partition),
                "offset": json_cell(item.offset),
                "end": "-" if known is None else str(known.end_offset),
                "lag": "-" if known is None else str(known.lag),
            }
        )
    for (topic, number), known in sorted(by_place.items()):
        place = {_PARTITION: number, _TOPIC: topic}
        rows.append(
            {
                "name": name,
                "partition": json_cell(place),
                "offset": json_cell(None),
                "end": str(known.end_offset),
                "lag": str(known.lag),
            }
        )
    return rows


def say_lags(session: CliSession, found: Mapping[str, Sequence[ConnectorOffset]], lags: Mapping[str, SinkLag]) -> None:
    """Totals, and what is not known, as talk."""
    for name, lag in lags.items():
        if lag.problem is not None:
            session.say(f"The lag of {name} is not known: {lag.problem}")
        else:
            session.say(f"{name} is {pluralize(lag.total or 0, 'record')} behind.")
    unknown = [name for name, offsets in found.items() if name not in lags and is_of_sink(offsets)]
    if unknown:
        session.say(
            f"The lag of {', '.join(unknown)} is not known, as the worker does not tell it. --worker FILE or "
            "--bootstrap-servers has it looked up at the brokers."
        )
