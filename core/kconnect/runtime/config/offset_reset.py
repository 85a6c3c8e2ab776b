"""`auto.offset.reset`: where a sink begins in a partition without a committed offset. One place for all who ask."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kconnect.errors import ConfigError

OFFSET_RESET: Final = "auto.offset.reset"
_BY_DURATION: Final = "by_duration:"
# librdkafka's words, beside Java's
_WORDS: Final[Mapping[str, Literal["begin", "end", "fail"]]] = {
    **dict.fromkeys(("earliest", "smallest", "beginning"), "begin"),
    **dict.fromkeys(("latest", "largest", "end"), "end"),
    **dict.fromkeys(("none", "error"), "fail"),
}
# As java.time.Duration reads it: P1DT2H30M4.5S
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.,](\d{0,9}))?S)?)?", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The first record, the end, none (the task fails), or the first record of the last `back_ms`."""

    to: Literal["begin", "end", "fail", "time"]
    back_ms: int = 0

    @property
    def of_client(self) -> str:
        """The word for librdkafka, which knows no times: where there is no offset we look for one ourselves.

        Differs: where the records of a committed offset are gone Java looks by time again; here what is left is read.
        """
        return {"end": "latest", "fail": "error"}.get(self.to, "earliest")


def parse_offset_reset(text: str) -> OffsetReset:
    """What a consumer's setting says. Errors: ConfigError with Java's message.

    Source: AutoOffsetResetStrategy (Kafka 4.3, KIP-1106).
    """
    word = text.strip().lower()
    if word in _WORDS:
        return OffsetReset(_WORDS[word])
    if word.startswith(_BY_DURATION):
        found = _DURATION.fullmatch(word.removeprefix(_BY_DURATION))
        if found is not None and any(found.groups()):
            days, hours, minutes, seconds, fraction = found.groups()
            whole_s = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
            return OffsetReset("time", whole_s * 1000 + int((fraction or "").ljust(3, "0")[:3]))
    raise ConfigError.invalid(
        OFFSET_RESET,
        text,
        f"Invalid value `{text}` for configuration {OFFSET_RESET}. The value must be either 'earliest', 'latest', "
        "'none' or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
    )
