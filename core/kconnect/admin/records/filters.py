"""Which records are shown: by key, and by a condition in the dialect of SqlPredicate."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from kconnect.admin.records.decoding import DecodedRecord, RecordDecoder
from kconnect.api import ConsumerRecord, Predicate
from kconnect.errors import BadRequestError, ConnectError, DataError

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

_PREDICATE: Final = "kconnect.builtin.sql.sql_predicate.SqlPredicate"
_BASE64: Final = "base64:"


class RecordFilter:
    """Decodes the records that are wanted. Threads: one at a time. `close()` ends the condition's database.

    Decodes before `accept` has decided only where the condition needs it: to find the last ten of many, the others are
    passed over as bytes.
    """

    def __init__(
        self, decoder: RecordDecoder, plugins: PluginRegistry, *, key: str | None = None, where: str | None = None
    ) -> None:
        """Errors: BadRequestError that says what is wrong with the condition, or with a key that is not base64."""
        self._decoder = decoder
        self._key = key
        self._key_bytes = None if key is None else _key_bytes(key)
        self._condition = None if where is None else _condition(where, plugins)
        self.untested = 0
        """Records for which the condition has no answer, such as those that lack a field it names."""
        self.first_untested: str | None = None
        """A sentence on the first of them."""

    def accept(self, record: ConsumerRecord) -> ConsumerRecord | DecodedRecord | None:
        """The record if it is wanted; give what comes back to `shown`."""
        if self._key is not None and record.key != self._key_bytes:
            decoded = self._decoder.decode(record)
            if not self._is_key(decoded):
                return None
            return self._tested(decoded)
        if self._condition is None:
            return record
        return self._tested(self._decoder.decode(record))

    def shown(self, found: ConsumerRecord | DecodedRecord) -> DecodedRecord:
        return found if isinstance(found, DecodedRecord) else self._decoder.decode(found)

    def close(self) -> None:
        if self._condition is not None:
            self._condition.close()
        self._decoder.close()

    def _is_key(self, decoded: DecodedRecord) -> bool:
        key = decoded.key.plain
        return key is not None and not isinstance(key, dict | list) and str(key) == self._key

    def _tested(self, decoded: DecodedRecord) -> DecodedRecord | None:
        if self._condition is None:
            return decoded
        try:
            return decoded if self._condition.test(decoded.to_sink_record()) else None
        except DataError as err:
            self.untested += 1
            self.first_untested = self.first_untested or f"{decoded.place}: {err}"
            return None


def _key_bytes(key: str) -> bytes:
    if not key.startswith(_BASE64):
        return key.encode(errors="surrogateescape")
    try:
        return base64.b64decode(key.removeprefix(_BASE64), validate=True)
    except binascii.Error as err:
        raise BadRequestError(f"The key {key} is not base64: {err}") from err


def _condition(where: str, plugins: PluginRegistry) -> Predicate:
    found: Any = plugins.predicate(_PREDICATE)()
    try:
        found.configure({"condition": where})
    except ConnectError as err:
        raise BadRequestError(
            f"The condition cannot be used: {_cause(err)}",
            hint="It is what stands after WHERE in Spark's dialect, such as \"amount > 100 AND _key = 'a'\".",
        ) from err
    made: Predicate = found
    return made


def _cause(err: BaseException) -> BaseException:
    """What the parser says, without the setting's name around it."""
    while isinstance(err.__cause__, ConnectError):
        err = err.__cause__
    return err
