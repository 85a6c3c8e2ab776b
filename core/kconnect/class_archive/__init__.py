"""Class archives of the JVMs we start: archive.py finds, checks and keeps them, maker.py is the process that makes one.

Imported by kconnect.spark and kconnect.devbroker, which know how their JVM is started; imports kconnect.errors alone.
"""

from kconnect.class_archive.archive import ClassArchive
from kconnect.class_archive.maker import Making, arguments, make_in_background, run_maker

__all__ = ["ClassArchive", "Making", "arguments", "make_in_background", "run_maker"]
