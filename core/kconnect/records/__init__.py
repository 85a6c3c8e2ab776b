"""Records of ordinary topics, read and decoded for people: what `connect records` and `connect dlq` show.

Imported by `direct`, `rest` and the CLI; imports `pipeline`, `plugins`, `kafka`, `config`, `api`. A decoder never
raises for what is in a record: bytes that it cannot read are given as bytes, with the reason.
"""

from kconnect.records.converters import converter_decoder
from kconnect.records.decoding import Decoded, DecodedRecord, FieldDecoder, RecordDecoder
from kconnect.records.guess import GuessDecoder, guess
from kconnect.records.plain import plain
from kconnect.records.registry import RegistryDecoder

__all__ = [
    "Decoded",
    "DecodedRecord",
    "FieldDecoder",
    "GuessDecoder",
    "RecordDecoder",
    "RegistryDecoder",
    "converter_decoder",
    "guess",
    "plain",
]
