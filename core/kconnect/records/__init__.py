"""Records of ordinary topics, read and decoded for people: what `connect records` and `connect dlq` show.

Imported by `direct`, `rest` and the CLI; imports `pipeline`, `plugins`, `kafka`, `config`, `api`. A decoder never
raises for what is in a record: bytes that it cannot read are given as bytes, with the reason.
"""

from kconnect.records.bounds import AtOffset, AtTime, Edge, Last, Range
from kconnect.records.converters import converter_decoder
from kconnect.records.decoding import Decoded, DecodedRecord, FieldDecoder, RecordDecoder
from kconnect.records.filters import RecordFilter
from kconnect.records.guess import GuessDecoder, guess
from kconnect.records.plain import plain
from kconnect.records.reading import TopicRecords
from kconnect.records.registry import RegistryDecoder

__all__ = [
    "AtOffset",
    "AtTime",
    "Decoded",
    "DecodedRecord",
    "Edge",
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
]
