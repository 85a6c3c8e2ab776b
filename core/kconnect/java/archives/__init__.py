"""Class archives of the JVMs we start: cached_archive.py finds, checks and keeps them, maker.py makes one.

Imported by kconnect.spark, `devbroker` and `plugins`, which know how their JVM is started; imports
kconnect.errors alone.
"""

from kconnect.java.archives.cached_archive import ARCHIVE_FLAGS, RECORDS_AT_EXIT, ClassArchive, recording
from kconnect.java.archives.maker import Making, arguments, has_started_makers, make_in_background, run_maker

__all__ = [
    "ARCHIVE_FLAGS",
    "RECORDS_AT_EXIT",
    "ClassArchive",
    "Making",
    "arguments",
    "has_started_makers",
    "make_in_background",
    "recording",
    "run_maker",
]
