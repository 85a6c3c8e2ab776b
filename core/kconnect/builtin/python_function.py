"""PythonTransform and PythonPredicate: a function of the user's own, named `module:function`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kconnect.api import (
    ConfigDef,
    ConfigError,
    ConnectRecord,
    DataError,
    Predicate,
    RecordBatch,
    Transformation,
    Type,
)
from kconnect.api.natural_values import natural
from kconnect.api.wording import pluralize
from kconnect.builtin.types.seen_columns import seen_column
from kconnect.builtin.user_functions import FUNCTION_CONFIG, found_function
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

TAKES_CONFIG = "takes"
_BATCH = "batch"


def _function(name: str | None) -> Callable[[Any], Any]:
    """What is named. Errors: ConfigError, also for one that takes no record."""
    found = found_function((name or "").strip())  # a validator is asked of what was left out, too
    try:
        inspect.signature(found).bind(None)
    except TypeError as error:
        problem = f"It must take one argument, the record or batch: {error}"
        raise ConfigError.invalid(FUNCTION_CONFIG, name, problem) from error
    except ValueError:
        return found  # of C: it says nothing of its arguments
    return found


def _check(_: str, value: Any) -> None:
    _function(value)


def _config(doc: str) -> ConfigDef:
    text = ConfigDef.Type.STRING
    validator = ConfigDef.LambdaValidator.with_(_check, "module:function")
    table = ConfigDef().define(FUNCTION_CONFIG, text, ConfigDef.NO_DEFAULT, validator, ConfigDef.Importance.HIGH, doc)
    return table.define(
        TAKES_CONFIG,
        text,
        "record",
        ConfigDef.ValidString.in_("record", _BATCH),
        ConfigDef.Importance.MEDIUM,
        "What the function is called with: each record, or a RecordBatch of many. Records without schema are columns "
        "of the types seen in them, value_schema is None; what columns cannot hold comes one by one.",
    )


TRANSFORM_CONFIG = _config("module:function, which gives the changed record or batch, or None to drop it.")
PREDICATE_CONFIG = _config("module:function, which says whether it is so: a bool, of a batch also a column of them.")


class PythonTransform(Transformation):
    """Calls a function for each record or batch. Nothing like it is in Java."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = TRANSFORM_CONFIG.parse(configs)
        self._name: str = config[FUNCTION_CONFIG]
        self._call = _function(self._name)
        self.supports_batches = config[TAKES_CONFIG] == _BATCH

    def apply(self, record: R) -> R | None:
        if not self.supports_batches:
            made = self._call(record)
            if made is not None and not isinstance(made, type(record)):
                raise _wrong(self._name, made, "a record or None", hint=f"record.new_record(value=..) {_CHANGED}.")
            return None if made is None else self._as_connect_has_it(made)
        batch = self.apply_batch(_batch_of(record, self._name))
        if batch is NotImplemented:
            raise _wrong(self._name, batch, "a RecordBatch or None")
        records = [] if batch is None else batch.to_records()
        if len(records) > 1:
            raise DataError(f"{self._name} returned {pluralize(len(records), 'row')} for one")
        return records[0] if records else None  # type: ignore[return-value]  # of the kind that was put in

    def _as_connect_has_it(self, made: R) -> R:
        """Errors: DataError for a dict with a struct's schema: converters would not say what to do."""
        for part, schema, value in (("key", made.key_schema, made.key), ("value", made.value_schema, made.value)):
            if schema is None:
                setattr(made, part, natural(value))
            elif type(value) is dict and schema.type is Type.STRUCT:
                raise DataError(
                    f"{self._name} returned a dict as the {part}, but its schema is that of a Struct",
                    hint=f"Give new_record() {part}_schema=None too, or a Struct of that schema.",
                )
        return made

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any | None:  # Any: mypy takes NotImplemented for it
        made = self._call(batch)
        if made is not None and made is not NotImplemented and not isinstance(made, RecordBatch):
            raise _wrong(self._name, made, "a RecordBatch or None", hint=f"batch.with_(value=..) {_CHANGED}.")
        return made

    def config(self) -> ConfigDef:
        return TRANSFORM_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


class PythonPredicate(Predicate):
    """Asks a function about each record or batch. Nothing like it is in Java."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = PREDICATE_CONFIG.parse(configs)
        self._name: str = config[FUNCTION_CONFIG]
        self._call = _function(self._name)
        self._takes_batches = config[TAKES_CONFIG] == _BATCH

    def test(self, record: ConnectRecord) -> bool:
        if self._takes_batches:
            found = self.test_batch(_batch_of(record, self._name))
            return found if isinstance(found, bool) else bool(found[0].as_py())
        found = self._call(record)
        if not isinstance(found, bool):
            raise _wrong(self._name, found, "True or False")
        return found

    def test_batch(self, batch: RecordBatch) -> bool | pa.BooleanArray | Any:  # Any: mypy takes NotImplemented for it
        if not self._takes_batches:
            return NotImplemented
        import pyarrow as pa

        found = self._call(batch)
        if isinstance(found, bool):
            return found
        if not isinstance(found, pa.BooleanArray) or len(found) != len(batch):
            raise _wrong(self._name, found, "True, False or a column of them, one for each row")
        return found.fill_null(False) if found.null_count else found

    def config(self) -> ConfigDef:
        return PREDICATE_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


def _batch_of(record: ConnectRecord, name: str) -> RecordBatch:
    """A batch of one. Errors: DataError for a value without schema that no column holds."""
    plain = {
        part: value
        for part, schema, value in (
            ("key", record.key_schema, record.key),
            ("value", record.value_schema, record.value),
        )
        if schema is None and value is not None
    }
    batch = RecordBatch.from_records([record.new_record(**dict.fromkeys(plain)) if plain else record])
    if batch is None:
        raise DataError(f"{name} takes batches, and the record does not fit its schema")
    try:
        return batch.with_(**{part: seen_column([value], mixes=False) for part, value in plain.items()})
    except DataError as error:
        hint = f"Set {TAKES_CONFIG}=record: then {name} gets each record as it is."
        raise DataError(f"{name} takes batches, and no column has what this record has: {error}", hint=hint) from error


_CHANGED: Final = "gives it with another value"


def _wrong(name: str, given: Any, wanted: str, hint: str | None = None) -> DataError:
    return DataError(f"{name} returned a {type(given).__qualname__}; it must return {wanted}", hint=hint)
