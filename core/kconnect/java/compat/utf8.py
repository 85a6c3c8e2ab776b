"""UTF-8 as Java decodes it: where bytes are wrong, as many U+FFFD as Java's decoder gives."""

from __future__ import annotations

import codecs

ERRORS_AS_JAVA = "kconnect-java-utf8"


def decode_as_java(raw: bytes) -> str:
    """Text of the bytes; what Java's decoder takes as one error becomes one U+FFFD. Source: sun.nio.cs.UTF_8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        codecs.register_error(ERRORS_AS_JAVA, _replace_as_java)
        return raw.decode("utf-8", ERRORS_AS_JAVA)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Python gives a surrogate in UTF-8 (ED A0..BF xx) a replacement for each byte, Java one; else the two agree."""
    assert isinstance(error, UnicodeDecodeError)
    raw, at = error.object, error.start
    if raw[at] == 0xED and at + 1 < len(raw) and 0xA0 <= raw[at + 1] <= 0xBF:
        third = at + 2 < len(raw) and raw[at + 2] & 0xC0 == 0x80
        return "\ufffd", at + (3 if third else 2)
    return "\ufffd", error.end
