"""What a connector's own plugins make of a dead letter: documents of it, and for a source the record to send."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kconnect.admin.dead_letters.document import Documents
from kconnect.admin.dead_letters.letter import NO_PARTITION, DeadLetter
from kconnect.admin.records import converter_decoder
from kconnect.api import ConsumerRecord, SourceConnector, SourceRecord
from kconnect.errors import ConnectError, DataError
from kconnect.model import ConnectorType, TaskId
from kconnect.runtime.config.connector_config import ConnectorConfig
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor
from kconnect.runtime.pipeline.plugin_parts import make_converters, make_steps
from kconnect.runtime.pipeline.source_dead_letters import LETTER_CONVERTER, make_letter_converters
from kconnect.runtime.pipeline.stages import RaiseAlways, StageError
from kconnect.runtime.pipeline.transform_chain import TransformChain

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_LETTERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_CONVERTERS, LETTER_CONVERTER),
    **{f"{key}.schemas.enable": "true" for key in _CONVERTERS},
}


def sink_documents(config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry) -> Documents:
    """Documents of a sink's dead letters, by its converters, or as bytes where neither it nor the worker names any.

    Errors: ConfigError, NotFoundError of its converters.
    """
    worker = {"key.converter": _BYTES, "value.converter": _BYTES, **worker}
    made = _made_converters(config, worker, plugins)
    return Documents(converter_decoder(config, worker, plugins), made, make_letter_converters(plugins))


def source_documents(worker: Mapping[str, str], plugins: PluginRegistry) -> Documents:
    """Documents of a source's dead letters, which are JSON with schema whatever its converters are."""
    letters = make_letter_converters(plugins)
    return Documents(converter_decoder(_LETTERS, worker, plugins), letters, letters)


def letter_documents(
    config: Mapping[str, str],
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    *,
    is_source: bool,
    note: Callable[[str], None],
) -> Documents:
    """What reads a connector's dead letters; a guess where its converters are not installed here, which `note` gets."""
    if is_source:
        return source_documents(worker, plugins)
    try:
        return sink_documents(config, worker, plugins)
    except ConnectError as error:
        note(f"Shown as bytes, because a converter of {config.get('name')} cannot be used here: {error}")
        bare = {"name": config.get("name", ""), "connector.class": config.get("connector.class", "")}
        return sink_documents(bare, {}, plugins)


def is_source(kind: ConnectorType, config: Mapping[str, str], plugins: PluginRegistry) -> bool:
    """Asks the worker, or its plugin where it is installed here, else its topics, which every sink has."""
    if kind is not ConnectorType.UNKNOWN:
        return kind is ConnectorType.SOURCE
    try:
        return issubclass(plugins.connector_class(config.get("connector.class", "")), SourceConnector)
    except ConnectError:
        return "topics" not in config and "topics.regex" not in config


class SourceChain:
    """The transformations and converters of a source, for its dead letters. Threads: one.

    Errors of the constructor: ConfigError, NotFoundError of its plugins.
    """

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry) -> None:
        settings = plugin_settings(config, worker)
        parsed = ConnectorConfig.parse(settings)
        self._steps = make_steps(parsed, plugins, PluginMonitor(TaskId(parsed.name, 0)))
        self._converters = _made_converters(config, worker, plugins)
        self._letters = make_letter_converters(plugins)

    def record(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        """What the source sends for it now; None when a transformation drops it.

        `record`: the dead letter's own, or an edited one. Errors: DataError that says which stage failed.
        """
        note = letter.source
        if note is None:
            raise DataError(f"{letter.place} is not a dead letter of a source")
        fetched = FetchedRecord(
            record.topic, 0, 0, record.key, record.value, None, record.timestamp_type, list(record.headers) or None
        )
        try:
            read = self._letters.to_connect_record(fetched)
            assert read is not None, "converters without a policy drop nothing"
            given = SourceRecord(
                note.source_partition or {},
                note.source_offset or {},
                record.topic,
                read.value,
                value_schema=read.value_schema,
                key=read.key,
                key_schema=read.key_schema,
                kafka_partition=None if record.partition == NO_PARTITION else record.partition,
                timestamp=record.timestamp,
                headers=read.headers,
            )
            steps = self._steps[len(self._steps) if note.steps_done is None else note.steps_done :]
            kept = TransformChain(steps, RaiseAlways()).apply_record(given)
            made = None if kept is None else self._converters.to_kafka_record(kept)
        except StageError as error:
            raise DataError(f"{letter.place} fails again in {error.stage.value}: {error.error}") from error
        if made is None:
            return None
        return ConsumerRecord(
            made.topic,
            NO_PARTITION if made.partition is None else made.partition,
            record.offset,
            made.key,
            made.value,
            made.timestamp,
            record.timestamp_type,
            list(made.headers or ()),
        )


def plugin_settings(config: Mapping[str, str], worker: Mapping[str, str]) -> dict[str, str]:
    """What a connector's config says of converters and transformations, with references in it resolved.

    Nothing else is looked up: secrets of its database need not be here. Errors: ConfigError for one that is missing.
    """
    found = {name: value for name, value in config.items() if name.split(".")[0] in ("transforms", "predicates")}
    found |= {name: value for name, value in config.items() if name.startswith(_CONVERTERS)}
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        resolved = dict(variables.resolve(found, config.get("name", "the connector")).values)
    finally:
        variables.close()
    return {name: config[name] for name in ("name", "connector.class") if name in config} | resolved


def _made_converters(config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginRegistry) -> Converters:
    settings = plugin_settings(config, worker)
    parsed = ConnectorConfig.parse(settings)
    return make_converters(parsed, worker, plugins, RaiseAlways(), PluginMonitor(TaskId(parsed.name, 0)))
