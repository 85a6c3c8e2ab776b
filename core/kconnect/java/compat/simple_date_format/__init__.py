"""Java's SimpleDateFormat in UTC: instants as text and back, by the patterns users wrote for Java.

Imported by TimestampConverter and TimestampRouter; imports nothing of ours. pattern.py reads a pattern, text.py writes
an instant, parse.py reads one; calendar.py is Java's calendar.
"""

from __future__ import annotations

from kconnect.java.compat.simple_date_format.parse import parse_instant
from kconnect.java.compat.simple_date_format.pattern import DatePattern, Piece
from kconnect.java.compat.simple_date_format.text import format_instant

__all__ = ["DatePattern", "Piece", "format_instant", "parse_instant"]
