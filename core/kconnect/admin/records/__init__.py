"""Records of ordinary topics, read and decoded for people: what `connect records` and `connect dlq` show.

Imported by `direct`, `rest` and the CLI; imports `pipeline`, `plugins`, `kafka`, `config`, `api`. A decoder never
raises for what is in a record: bytes that it cannot read are given as bytes, with the reason.
"""

from kconnect.admin.records.decoders import RegistryDecoder, converter_decoder, record_decoder
from kconnect.admin.records.decoding import Decoded, DecodedRecord, FieldDecoder, RecordDecoder
from kconnect.admin.records.guess import GuessDecoder, guess
from kconnect.admin.records.reading import TopicRecords
from kconnect.admin.records.selection import Last, Range, RecordFilter
from kconnect.api.plain_values import plain

__all__ = [
    "Decoded",
    "DecodedRecord",
    "FieldDecoder",
    "GuessDecoder",
    "Last",
    "Range",
    "RecordDecoder",
    "RecordFilter",
    "RegistryDecoder",
    "TopicRecords",
    "converter_decoder",
    "guess",
    "plain",
    "record_decoder",
]
