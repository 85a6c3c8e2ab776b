r"""Java .properties files, read and written exactly as `java.util.Properties` does.

Comments (# and !), separators (=, : and blanks), continuation lines and escapes (\t \n \r \f \uXXXX) follow the JDK;
bytes are ISO-8859-1, as Kafka reads them from a stream. The reader is ours because the javaproperties package differs
from the JDK in corner cases (a lone backslash, comments after a continuation); its writer is exact and is used.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError, NotFoundError

log = logging.getLogger(__name__)

_BLANKS: Final = " \t\f"
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.|$)", re.DOTALL)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BOM: Final = b"\xef\xbb\xbf"


def read_properties(path: str | Path) -> dict[str, str]:
    """The settings of a .properties file; the last value of a repeated key wins, which is reported.

    Errors: NotFoundError if the file does not exist; ConfigError if it cannot be read, is not text, is JSON, has no
    settings or has a malformed escape. Each names the file and what to do.
    Differs: a byte order mark at the start is skipped, Java makes it part of the first key; Java reads JSON, too.
    """
    path = Path(path)
    raw = read_text_bytes(path)
    if raw.removeprefix(_BOM).lstrip()[:1] in (b"{", b"["):
        raise ConfigError(f"{path} is JSON, no .properties file.", hint="Write lines like `key=value`, as for Java.")
    entries = parse_properties(raw, str(path))
    _warn_of_repeated(raw, str(path))
    if not entries:
        raise ConfigError(f"{path} has no settings in it.", hint="Write lines like `key=value` into it.")
    return entries


def parse_properties(text: bytes | str, source: str = "properties") -> dict[str, str]:
    r"""The settings in the text of a .properties file. Bytes are read as ISO-8859-1.

    Errors: ConfigError on a malformed `\\u` escape, with source and line.
    Source: java.util.Properties.load (JDK 17).
    """
    if isinstance(text, bytes):
        _warn_of_utf8(text, source)
        text = text.removeprefix(_BOM).decode("iso-8859-1")
    entries: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        entries[_unescape(key, source, number)] = _unescape(value, source, number)
    return entries


def strict_properties(text: bytes | str, source: str, *, separated: bool = False) -> dict[str, str]:
    r"""Works as `parse_properties`, for what is written by hand: what Java would read as something else is refused.

    `separated`: each line needs a `=` or `:`, as text that has no settings in it has none.
    Errors: ConfigError for a key in two lines, for UTF-8 outside comments of bytes, and for a line without separator.
    """
    is_raw = isinstance(text, bytes)
    if isinstance(text, bytes):
        text = text.removeprefix(_BOM).decode("iso-8859-1")
    entries: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in _logical_lines(text):
        if is_raw and _is_utf8(line):
            raise ConfigError(
                f"{source}, line {number}: it holds UTF-8, but .properties files are read as ISO-8859-1, as Java does.",
                hint="Write \\uXXXX for the letters that are not ASCII, or use TOML, JSON or YAML.",
            )
        raw_key, raw_value = _split(line)
        key = _unescape(raw_key, source, number)
        if separated and (not raw_key or not re.search(r"[=:]", line[len(raw_key) :])):
            raise ConfigError(
                f"{source}, line {number} is not a setting: it has no `=`.",
                hint="Write key=value lines, JSON, TOML or YAML.",
            )
        if key in lines:
            raise ConfigError(
                f"{source}: {key} is in line {lines[key]} and in line {number}.",
                hint="Keep one of them; nothing was changed.",
            )
        lines[key] = number
        entries[key] = _unescape(raw_value, source, number)
    return entries


def _is_utf8(line: str) -> bool:
    raw = line.encode("iso-8859-1")
    if raw.isascii():
        return False
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def write_properties(path: str | Path, settings: Mapping[str, str], comment: str | None = None) -> None:
    """Write settings so that Java and `read_properties` read the same back."""
    Path(path).write_bytes(dump_properties(settings, comment).encode("ascii"))


def dump_properties(settings: Mapping[str, str], comment: str | None = None) -> str:
    """Settings as the text of a .properties file; everything outside ASCII is escaped."""
    import javaproperties  # takes 25 ms with the XML and URL modules it needs, which commands that only read avoid

    return str(javaproperties.dumps(dict(settings), comments=comment, timestamp=False, ensure_ascii_comments=True))


def read_text_bytes(path: Path) -> bytes:
    """The bytes of a text file. Errors: as `read_properties` says, but an empty file is fine."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError as err:
        raise NotFoundError(f"{path} does not exist.", hint="Check the path, or create the file.") from err
    except IsADirectoryError as err:
        raise ConfigError(f"{path} is a folder, a file was expected.", hint="Name a file in it.") from err
    except PermissionError as err:
        raise ConfigError(
            f"{path} may not be read by this user.", hint=f"Run `chmod u+r {path}` or change user."
        ) from err
    except (OSError, ValueError) as err:
        raise ConfigError(f"{path} cannot be read: {err}.", hint="Name a regular text file.") from err
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise ConfigError(f"{path} is UTF-16.", hint="Save it as UTF-8; in PowerShell: Out-File -Encoding utf8.")
    if b"\0" in raw:
        raise ConfigError(f"{path} is not a text file.", hint="Name a file with settings, such as `key=value` lines.")
    return raw


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each line with its continuations and its line number; without comments and blank lines.

    A continuation that is still empty counts as a new line: a comment there is a comment, a blank line ends it.
    """
    line, start, continued = "", 0, False
    number, position, end = 0, 0, len(text)
    while position < end:
        found = _LINE_END.search(text, position)
        piece = text[position : found.start() if found else end].lstrip(_BLANKS)
        position = found.end() if found else end
        number += 1
        if not line:
            start = number
            if not piece or piece[0] in "#!":
                continue
        line += piece
        continued = (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
        if continued:
            line = line[:-1]
            # The JDK looks for more text right after the first character of the line end: with none, the line ends
            # here, even when it is empty.
            if found is None or found.start() + 1 == end:
                yield start, line
                return
        else:
            yield start, line
            line = ""
    if line:
        yield start, line


def _split(line: str) -> tuple[str, str]:
    """Raw key and raw value: the key ends at the first unescaped blank, = or :."""
    end, escaped = len(line), False
    for index, char in enumerate(line):
        if not escaped and (char in _BLANKS or char in "=:"):
            end = index
            break
        escaped = char == "\\" and not escaped
    rest = line[end:].lstrip(_BLANKS)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANKS)
    return line[:end], rest


def _unescape(field: str, source: str, number: int) -> str:
    if "\\" not in field:
        return field

    def replacement(found: re.Match[str]) -> str:
        code = found.group(1)
        if code == "u":
            raise ConfigError(
                f"{source}, line {number}: Malformed \\uxxxx encoding.",
                hint="Write four hexadecimal digits after \\u, or double a backslash that is meant as one.",
            )
        return chr(int(code[1:], 16)) if len(code) == 5 else _NAMED.get(code, code)

    text = _ESCAPE.sub(replacement, field)
    # Two escapes may spell one character outside the BMP, as Java's strings hold it.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _warn_of_utf8(raw: bytes, source: str) -> None:
    if raw.isascii():
        return
    for number, line in enumerate(raw.removeprefix(_BOM).splitlines(), 1):
        if _is_utf8(line.decode("iso-8859-1")):
            log.warning(
                "%s, line %d: it holds UTF-8, but .properties files are read as ISO-8859-1, as Java does: write "
                "\\uXXXX instead",
                source,
                number,
            )
            return


def _warn_of_repeated(raw: bytes, source: str) -> None:
    lines: dict[str, int] = {}
    for number, line in _logical_lines(raw.removeprefix(_BOM).decode("iso-8859-1")):
        key = _unescape(_split(line)[0], source, number)
        if key in lines:
            log.warning(
                "%s: %s is in line %d and in line %d; the last one counts, as in Java",
                source,
                key,
                lines[key],
                number,
            )
        lines[key] = number
